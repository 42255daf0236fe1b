#include "server/rpc/calls/unknown_call.h"

#include <absl/strings/str_cat.h>

#include "common/base/safe_text.h"
#include "server/rpc/calls/control_message.h"
#include "server/rpc/queue/status.h"

namespace softmax::server {

void UnknownCall::Arm(ControlContext& context) {
  auto* const call = new UnknownCall(context);
  context.unknown.RequestCall(&call->context_, &call->stream_, context.queue, context.queue, static_cast<Tag*>(call));
}

void UnknownCall::Proceed(bool ok) {
  if (matched_ || !ok) return Free();
  matched_ = true;
  place_.pace.Offer([&place = place_] { Arm(place); });
  place_.WaitForTurn(context_.peer(), this);
}

void UnknownCall::TakeTurn(const absl::Status& entry) {
  if (!entry.ok()) {
    stream_.Finish(ToGrpcStatus(entry), static_cast<Tag*>(this));
    return;
  }
  stream_.Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                              absl::StrCat("method: ", SafeText(context_.method(), TextFor::kPeople, kExcerptBytes),
                                           " is not known here; ", place_.known_services)),
                 static_cast<Tag*>(this));
}

}  // namespace softmax::server
