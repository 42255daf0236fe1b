#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include "server/rpc/calls/control_context.h"
#include "server/rpc/queue/call.h"

namespace softmax::server {

// A call of a method that is not here: UNIMPLEMENTED, naming it. gRPC's own answer has no words. It earns its
// connection nothing (ReadGuard), so a flood of them ends it.
class UnknownCall final : public Call, public PacedWork {
 public:
  static void Arm(ControlContext& context);
  void Proceed(bool ok) override;
  void TakeTurn(const absl::Status& entry) override;

 private:
  explicit UnknownCall(ControlContext& context) : Call(context.calls), place_(context), stream_(&context_) {}

  ControlContext& place_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  bool matched_ = false;
};

}  // namespace softmax::server
