#pragma once

#include "server/rpc/calls/thread_context.h"
#include "server/rpc/queue/call_group.h"

namespace softmax::server {

// The calls of SoftmaxService, health and reflection, and those of methods that are not here; and what these share with
// the groups of other contracts.
class SoftmaxGroup final : public CallGroup {
 public:
  // All of them outlive this.
  SoftmaxGroup(QueueThread& thread, ServiceState& state, Recorder& recorder, bool reflection)
      : context_(thread, state, recorder), reflects_(reflection) {}

  ThreadContext& context() { return context_; }

  void Register(grpc::ServerBuilder* builder) override;
  void Arm() override;
  void Attend(TimePoint now) override;

 private:
  ThreadContext context_;
  const bool reflects_;
};

}  // namespace softmax::server
