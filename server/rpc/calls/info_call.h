#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include "server/rpc/calls/thread_context.h"
#include "server/rpc/queue/tag.h"

namespace softmax::server {

// One GetServerInfo call. On the queue threads for the reason that health_calls.h gives.
class InfoCall final : public Tag, public PacedWork {
 public:
  static void Arm(ThreadContext& thread);
  void Proceed(bool ok) override;
  void TakeTurn(const absl::Status& entry) override;

 private:
  explicit InfoCall(ThreadContext& thread) : thread_(thread), counted_(thread.calls), responder_(&context_) {}

  ThreadContext& thread_;
  const CallCount::Member counted_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  bool matched_ = false;
};

}  // namespace softmax::server
