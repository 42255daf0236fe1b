#include "server/rpc/calls/info_call.h"

#include "server/rpc/calls/control_message.h"

namespace softmax::server {

void InfoCall::Arm(ThreadContext& thread) {
  auto* call = new InfoCall(thread);
  thread.softmax.RequestControl(/*method=*/0, &call->context_, &call->request_, &call->responder_, thread.queue(),
                                static_cast<Tag*>(call));
}

void InfoCall::TakeTurn(const absl::Status& entry) {
  const TimePoint arrived = SteadyClock::now();
  FrontDoor& door = thread_.door;
  door.RequestArrived();
  v1::GetServerInfoRequest request;
  absl::Status status = entry;
  if (status.ok()) status = door.Authorize(context_);
  if (status.ok()) status = place_.Parse(request_, context_.peer(), &request);
  const RequestSample sample = SampleOf(Method::kGetServerInfo, status, arrived, SteadyClock::now(), nullptr);
  door.RequestFinished(sample, /*id=*/0, nullptr, context_);
  if (!status.ok()) return Finish(status);
  v1::GetServerInfoResponse info = thread_.state.info;
  thread_.state.describe_devices(&info);
  Finish(SerializeControl(info));
}

}  // namespace softmax::server
