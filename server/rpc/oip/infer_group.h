#pragma once

#include "server/rpc/calls/thread_context.h"
#include "server/rpc/oip/model_statistics.h"
#include "server/rpc/oip/shared_files.h"
#include "server/rpc/queue/call_group.h"

namespace softmax::server {

// The calls of GRPCInferenceService. Those under way stand in the lists of the thread's context, which attends to them.
class InferGroup final : public CallGroup {
 public:
  // All of them outlive this. `files`: null: none is served.
  InferGroup(ThreadContext& thread, ModelStatistics& statistics, SharedFiles* files)
      : thread_(thread), statistics_(statistics), counts_(statistics.AddThread()), files_(files) {}

  void Register(grpc::ServerBuilder* builder) override;
  void Arm() override;

  // For its calls, on the thread.
  ThreadContext& thread() { return thread_; }
  TensorService& service() { return service_; }
  const ModelStatistics& statistics() const { return statistics_; }
  ThreadModelCounts& counts() { return counts_; }
  SharedFiles* files() { return files_; }

 private:
  ThreadContext& thread_;
  const ModelStatistics& statistics_;
  ThreadModelCounts& counts_;
  SharedFiles* const files_;
  TensorService service_{kModelInferMethod, kModelStreamInferMethod};
};

}  // namespace softmax::server
