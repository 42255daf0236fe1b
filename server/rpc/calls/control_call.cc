#include "server/rpc/calls/control_call.h"

#include "server/rpc/queue/status.h"

namespace softmax::server {

void ControlCall::Proceed(bool ok) {
  if (matched_) {
    place_.CallFinished(context_.peer());
    return Free();
  }
  if (!ok) return Free();
  matched_ = true;
  place_.pace.Offer(std::move(arm_));
  place_.WaitForTurn(context_.peer(), this);
}

void ControlCall::Finish(const absl::StatusOr<grpc::ByteBuffer>& answer) {
  if (answer.ok()) {
    responder_.Finish(*answer, grpc::Status::OK, static_cast<Tag*>(this));
  } else {
    responder_.FinishWithError(ToGrpcStatus(answer.status()), static_cast<Tag*>(this));
  }
}

}  // namespace softmax::server
