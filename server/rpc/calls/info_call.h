#pragma once

#include "server/rpc/calls/control_call.h"
#include "server/rpc/calls/thread_context.h"

namespace softmax::server {

// One GetServerInfo call.
class InfoCall final : public ControlCall {
 public:
  static void Arm(ThreadContext& thread);
  void TakeTurn(const absl::Status& entry) override;

 private:
  explicit InfoCall(ThreadContext& thread) : ControlCall(thread.control, [&thread] { Arm(thread); }), thread_(thread) {}

  ThreadContext& thread_;
};

}  // namespace softmax::server
