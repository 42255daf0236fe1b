#include "server/rpc/oip/infer_control_call.h"

#include <array>
#include <string>

#include "server/rpc/calls/control_message.h"
#include "server/rpc/oip/infer_control.h"

namespace softmax::server {
namespace {

using Answerer = absl::StatusOr<grpc::ByteBuffer> (*)(InferGroup& group, const grpc::ByteBuffer& bytes,
                                                      const std::string& peer);

template <typename Request>
absl::StatusOr<grpc::ByteBuffer> AnswerTo(InferGroup& group, const grpc::ByteBuffer& bytes, const std::string& peer) {
  Request request;
  if (absl::Status status = group.thread().control.Parse(bytes, peer, &request); !status.ok()) return status;
  const ServiceState& state = group.thread().state;
  const auto response = InferControl({state.health, group.statistics(), state.info.version()}).Answer(request);
  if (!response.ok()) return response.status();
  return SerializeControl(*response);
}

// In the order of InferMethods::kControlNames.
constexpr std::array<Answerer, InferMethods::kControlMethods> kAnswerers = {
    &AnswerTo<inference::ServerLiveRequest>,
    &AnswerTo<inference::ServerReadyRequest>,
    &AnswerTo<inference::ModelReadyRequest>,
    &AnswerTo<inference::ServerMetadataRequest>,
    &AnswerTo<inference::ModelMetadataRequest>,
    &AnswerTo<inference::ModelConfigRequest>,
    &AnswerTo<inference::ModelStatisticsRequest>,
    &AnswerTo<inference::RepositoryIndexRequest>,
    &AnswerTo<inference::RepositoryModelLoadRequest>,
    &AnswerTo<inference::RepositoryModelUnloadRequest>,
    &AnswerTo<inference::SystemSharedMemoryStatusRequest>,
    &AnswerTo<inference::SystemSharedMemoryRegisterRequest>,
    &AnswerTo<inference::SystemSharedMemoryUnregisterRequest>,
    &AnswerTo<inference::CudaSharedMemoryStatusRequest>,
    &AnswerTo<inference::CudaSharedMemoryRegisterRequest>,
    &AnswerTo<inference::CudaSharedMemoryUnregisterRequest>,
    &AnswerTo<inference::TraceSettingRequest>,
    &AnswerTo<inference::LogSettingsRequest>,
};

}  // namespace

void InferControlCall::Arm(InferGroup& group, std::size_t method) {
  auto* call = new InferControlCall(group, method);
  group.methods().RequestControl(method, &call->context_, &call->request_, &call->responder_, group.thread().queue(),
                                 static_cast<Tag*>(call));
}

void InferControlCall::TakeTurn(const absl::Status& entry) {
  const TimePoint arrived = SteadyClock::now();
  FrontDoor& door = group_.thread().door;
  door.RequestArrived(Method::kInferControl);
  const absl::Status status = entry.ok() ? door.Authorize(context_) : entry;
  const absl::StatusOr<grpc::ByteBuffer> answer =
      status.ok() ? kAnswerers[method_](group_, request_, context_.peer()) : status;
  const RequestSample sample = SampleOf(Method::kInferControl, answer.status(), arrived, SteadyClock::now(), nullptr);
  door.RequestFinished(sample, /*id=*/0, nullptr, context_);
  Finish(answer);
}

}  // namespace softmax::server
