#include "server/rpc/oip/infer_control_call.h"

#include "server/rpc/oip/infer_control.h"

namespace softmax::server {

void InferControlCall::Arm(InferGroup& group, std::size_t method) {
  auto* call = new InferControlCall(group, method);
  group.service().RequestControl(static_cast<int>(method), &call->context_, &call->request_, &call->responder_,
                                 group.thread().queue(), static_cast<Tag*>(call));
}

void InferControlCall::TakeTurn(const absl::Status& entry) {
  const TimePoint arrived = SteadyClock::now();
  FrontDoor& door = group_.thread().door;
  const ServiceState& state = group_.thread().state;
  door.RequestArrived();
  const absl::Status status = entry.ok() ? door.Authorize(context_) : entry;
  const auto read = [this](google::protobuf::MessageLite* to) { return place_.Parse(request_, context_.peer(), to); };
  const InferControlSources sources{state.health, group_.statistics(), state.info.version(), group_.files()};
  const absl::StatusOr<grpc::ByteBuffer> answer =
      status.ok() ? InferControlMethods()[method_].answer(sources, read) : status;
  const RequestSample sample = SampleOf(Method::kInferControl, answer.status(), arrived, SteadyClock::now(), nullptr);
  door.RequestFinished(sample, /*id=*/0, nullptr, context_);
  Finish(answer);
}

}  // namespace softmax::server
