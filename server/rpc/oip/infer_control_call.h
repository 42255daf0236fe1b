#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <cstddef>

#include "server/rpc/oip/infer_group.h"
#include "server/rpc/queue/tag.h"

namespace softmax::server {

// One call of the Open Inference Protocol that brings no tensor. On the queue threads for the reason that
// health_calls.h gives.
class InferControlCall final : public Tag, public PacedWork {
 public:
  // `method`: its place in InferMethods::kControlNames.
  static void Arm(InferGroup& group, std::size_t method);
  void Proceed(bool ok) override;
  void TakeTurn(const absl::Status& entry) override;

 private:
  InferControlCall(InferGroup& group, std::size_t method)
      : group_(group), method_(method), counted_(group.thread().calls), responder_(&context_) {}

  InferGroup& group_;
  const std::size_t method_;
  const CallCount::Member counted_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  bool matched_ = false;
};

}  // namespace softmax::server
