#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <cstddef>

#include "server/rpc/queue/queue_thread.h"
#include "server/rpc/queue/tag.h"

namespace softmax::server {

// One call of the Open Inference Protocol that brings no tensor. On the queue threads for the reason that
// health_calls.h gives.
class InferControlCall final : public Tag, public PacedWork {
 public:
  // `method`: its place in InferMethods::kControlNames.
  static void Arm(QueueThread& thread, std::size_t method);
  void Proceed(bool ok) override;
  void TakeTurn(const absl::Status& entry) override;

 private:
  InferControlCall(QueueThread& thread, std::size_t method)
      : thread_(thread), method_(method), counted_(thread.calls()), responder_(&context_) {}

  QueueThread& thread_;
  const std::size_t method_;
  const CallCount::Member counted_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  bool matched_ = false;
};

}  // namespace softmax::server
