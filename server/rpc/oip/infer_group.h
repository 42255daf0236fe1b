#pragma once

#include "server/rpc/calls/thread_context.h"
#include "server/rpc/oip/model_statistics.h"
#include "server/rpc/queue/call_group.h"

namespace softmax::server {

// The calls of GRPCInferenceService. Those under way stand in the lists of the thread's context, which attends to them.
class InferGroup final : public CallGroup {
 public:
  // Both outlive this.
  InferGroup(ThreadContext& thread, ModelStatistics& statistics)
      : thread_(thread), statistics_(statistics), counts_(statistics.AddThread()) {}

  void Register(grpc::ServerBuilder* builder) override;
  void Arm() override;

  // For its calls, on the thread.
  ThreadContext& thread() { return thread_; }
  TensorService& service() { return service_; }
  const ModelStatistics& statistics() const { return statistics_; }
  ThreadModelCounts& counts() { return counts_; }

 private:
  ThreadContext& thread_;
  const ModelStatistics& statistics_;
  ThreadModelCounts& counts_;
  TensorService service_{kModelInferMethod, kModelStreamInferMethod};
};

}  // namespace softmax::server
