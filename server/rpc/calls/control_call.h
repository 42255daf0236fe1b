#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>

#include "server/rpc/calls/control_context.h"
#include "server/rpc/queue/call.h"

namespace softmax::server {

// One unary call that brings no tensor: it waits for its turn, and is answered then. Like those of health (see
// health_calls.h) it is answered on the thread where it came in.
class ControlCall : public Call, public PacedWork {
 public:
  void Proceed(bool ok) final;

 protected:
  // `arm` offers one more call of the same kind; this one may be gone by then.
  ControlCall(ControlContext& place, std::function<void()> arm)
      : Call(place.calls), place_(place), responder_(&context_), arm_(std::move(arm)) {}

  // The answer, or the error; once, in TakeTurn.
  void Finish(const absl::StatusOr<grpc::ByteBuffer>& answer);

  ControlContext& place_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;

 private:
  std::function<void()> arm_;
  bool matched_ = false;
};

}  // namespace softmax::server
