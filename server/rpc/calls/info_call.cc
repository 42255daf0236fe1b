#include "server/rpc/calls/info_call.h"

#include "server/rpc/calls/control_message.h"
#include "server/rpc/queue/status.h"

namespace softmax::server {

void InfoCall::Arm(ThreadContext& thread) {
  auto* call = new InfoCall(thread);
  thread.softmax.RequestGetServerInfo(&call->context_, &call->request_, &call->responder_, thread.queue(),
                                      static_cast<Tag*>(call));
}

void InfoCall::Proceed(bool ok) {
  if (matched_ || !ok) {
    if (matched_) thread_.control.CallFinished(context_.peer());
    delete this;
    return;
  }
  matched_ = true;
  thread_.control.pace.Offer([&thread = thread_] { Arm(thread); });
  thread_.control.WaitForTurn(context_.peer(), this);
}

void InfoCall::TakeTurn(const absl::Status& entry) {
  const TimePoint arrived = SteadyClock::now();
  FrontDoor& door = thread_.door;
  door.RequestArrived(Method::kGetServerInfo);
  v1::GetServerInfoRequest request;
  absl::Status status = entry;
  if (status.ok()) status = door.Authorize(context_);
  if (status.ok()) status = thread_.control.Parse(request_, context_.peer(), &request);
  const RequestSample sample = SampleOf(Method::kGetServerInfo, status, arrived, SteadyClock::now(), nullptr);
  door.RequestFinished(sample, /*id=*/0, nullptr, context_);
  if (!status.ok()) {
    responder_.FinishWithError(ToGrpcStatus(status), static_cast<Tag*>(this));
    return;
  }
  v1::GetServerInfoResponse info = thread_.state.info;
  thread_.state.describe_devices(&info);
  responder_.Finish(SerializeControl(info), grpc::Status::OK, static_cast<Tag*>(this));
}

}  // namespace softmax::server
