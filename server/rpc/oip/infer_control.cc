#include "server/rpc/oip/infer_control.h"

#include <absl/strings/str_cat.h>

#include <chrono>

#include "common/wire/whole_message.h"
#include "inference/inference.pb.h"
#include "server/rpc/calls/control_context.h"

namespace softmax::server {
namespace {

using Sources = InferControlSources;
template <typename Response>
using Result = absl::StatusOr<Response>;

constexpr char kVersion[] = "1";
constexpr char kPlatform[] = "softmax";
// Above 0 some clients take the first dimension as the batch's, so that they can be told its size alone.
constexpr int kMaxBatchSize = 1 << 20;

[[gnu::cold]] absl::Status NoModel(const std::string& name, const std::string& version) {
  return NoInferModel("", name, version);
}

// As Triton says it where models are not controlled by its clients.
template <typename... What>
[[gnu::cold]] absl::Status NotAllowed(const What&... what) {
  return absl::UnavailableError(absl::StrCat(what...));
}

[[gnu::cold]] absl::Status NoRegion(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("name: ", Quoted(name), ": there is no such region of shared memory"));
}

[[gnu::cold]] absl::Status NoSharedMemory() {
  return absl::UnimplementedError(
      "shared memory is not served here (oip_shared_memory is off); send tensors in raw_input_contents");
}

inference::DataType ConfigTypeOf(kernels::DataType type) {
  inference::DataType named = inference::TYPE_INVALID;
  (void)inference::DataType_Parse(absl::StrCat("TYPE_", DatatypeName(type)), &named);
  return named;
}

void DescribeTensor(const char* name, const InferModel& model,
                    inference::ModelMetadataResponse::TensorMetadata* tensor) {
  tensor->set_name(name);
  tensor->set_datatype(DatatypeName(model.datatype));
  tensor->add_shape(-1);
  tensor->add_shape(-1);
}

void Set(std::uint64_t count, std::uint64_t ns, inference::StatisticDuration* duration) {
  duration->set_count(count);
  duration->set_ns(ns);
}

// Milliseconds since the epoch.
std::uint64_t WallTime(TimePoint then) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const auto ago = duration_cast<milliseconds>(SteadyClock::now() - then);
  const auto now = duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  return static_cast<std::uint64_t>((now - ago).count());
}

Result<inference::ServerLiveResponse> Respond(const Sources& sources, const inference::ServerLiveRequest&) {
  inference::ServerLiveResponse response;
  response.set_live(sources.health.Check("liveness") == Health::Status::kServing);
  return response;
}

Result<inference::ServerReadyResponse> Respond(const Sources& sources, const inference::ServerReadyRequest&) {
  inference::ServerReadyResponse response;
  response.set_ready(sources.health.ready());
  return response;
}

Result<inference::ModelReadyResponse> Respond(const Sources& sources, const inference::ModelReadyRequest& request) {
  const InferModel* const model = FindInferModel(request.name(), request.version());
  if (model == nullptr) {
    // A model or version that is not here is not ready; what can be no version is an error.
    absl::Status status = NoModel(request.name(), request.version());
    if (!absl::IsNotFound(status)) return status;
  }
  inference::ModelReadyResponse response;
  response.set_ready(model != nullptr && sources.health.ready());
  return response;
}

Result<inference::ServerMetadataResponse> Respond(const Sources& sources, const inference::ServerMetadataRequest&) {
  inference::ServerMetadataResponse response;
  response.set_name("softmax-server");
  response.set_version(sources.version);
  response.add_extensions("statistics");
  response.add_extensions("model_configuration");
  response.add_extensions("classification");
  if (sources.files != nullptr) response.add_extensions("system_shared_memory");
  return response;
}

Result<inference::ModelMetadataResponse> Respond(const Sources&, const inference::ModelMetadataRequest& request) {
  const InferModel* const model = FindInferModel(request.name(), request.version());
  if (model == nullptr) return NoModel(request.name(), request.version());
  inference::ModelMetadataResponse response;
  response.set_name(model->name);
  response.add_versions(kVersion);
  response.set_platform(kPlatform);
  DescribeTensor("X", *model, response.add_inputs());
  DescribeTensor("Y", *model, response.add_outputs());
  return response;
}

Result<inference::ModelConfigResponse> Respond(const Sources&, const inference::ModelConfigRequest& request) {
  const InferModel* const model = FindInferModel(request.name(), request.version());
  if (model == nullptr) return NoModel(request.name(), request.version());
  inference::ModelConfigResponse response;
  inference::ModelConfig* const config = response.mutable_config();
  config->set_name(model->name);
  config->set_platform(kPlatform);
  config->set_backend(kPlatform);
  config->set_max_batch_size(kMaxBatchSize);
  inference::ModelInput* const input = config->add_input();
  input->set_name("X");
  input->set_data_type(ConfigTypeOf(model->datatype));
  input->add_dims(-1);
  inference::ModelOutput* const output = config->add_output();
  output->set_name("Y");
  output->set_data_type(ConfigTypeOf(model->datatype));
  output->add_dims(-1);
  config->mutable_dynamic_batching();
  return response;
}

void AddStatistics(const Sources& sources, const InferModel& model, inference::ModelStatisticsResponse* response) {
  const ModelTotals totals = sources.statistics.Totals(IndexOf(model, InferModels()));
  inference::ModelStatistics* const one = response->add_model_stats();
  one->set_name(model.name);
  one->set_version(kVersion);
  if (totals.last != TimePoint{}) one->set_last_inference(WallTime(totals.last));
  one->set_inference_count(totals.rows);
  one->set_execution_count(totals.batches);
  inference::InferStatistics* const stats = one->mutable_inference_stats();
  Set(totals.succeeded, totals.succeeded_ns, stats->mutable_success());
  Set(totals.failed, totals.failed_ns, stats->mutable_fail());
  // Clients look for counts that grow, and take a stage without one for a model that did not run.
  Set(totals.succeeded, totals.queue_ns, stats->mutable_queue());
  Set(totals.succeeded, 0, stats->mutable_compute_input());
  Set(totals.succeeded, totals.execution_ns, stats->mutable_compute_infer());
  Set(totals.succeeded, 0, stats->mutable_compute_output());
}

Result<inference::ModelStatisticsResponse> Respond(const Sources& sources,
                                                   const inference::ModelStatisticsRequest& request) {
  inference::ModelStatisticsResponse response;
  if (request.name().empty()) {
    for (const InferModel& model : InferModels()) AddStatistics(sources, model, &response);
    return response;
  }
  const InferModel* const model = FindInferModel(request.name(), request.version());
  if (model == nullptr) return NoModel(request.name(), request.version());
  AddStatistics(sources, *model, &response);
  return response;
}

Result<inference::RepositoryIndexResponse> Respond(const Sources& sources,
                                                   const inference::RepositoryIndexRequest& request) {
  inference::RepositoryIndexResponse response;
  const bool ready = sources.health.ready();
  if (request.ready() && !ready) return response;
  for (const InferModel& model : InferModels()) {
    auto* const index = response.add_models();
    index->set_name(model.name);
    index->set_version(kVersion);
    index->set_state(ready ? "READY" : "UNAVAILABLE");
    if (!ready) index->set_reason("the server is not ready");
  }
  return response;
}

Result<inference::RepositoryModelLoadResponse> Respond(const Sources&,
                                                       const inference::RepositoryModelLoadRequest& request) {
  if (FindInferModel(request.model_name(), "") == nullptr) return NoInferModel("model_", request.model_name(), "");
  if (!request.parameters().empty()) {
    return NotAllowed(
        "parameters: ", Quoted(request.parameters().begin()->first),
        ": explicit model load / unload is not allowed; the models are a part of this server, and loaded");
  }
  return inference::RepositoryModelLoadResponse();
}

Result<inference::RepositoryModelUnloadResponse> Respond(const Sources&,
                                                         const inference::RepositoryModelUnloadRequest& request) {
  if (FindInferModel(request.model_name(), "") == nullptr) return NoInferModel("model_", request.model_name(), "");
  return NotAllowed("model_name: ", Quoted(request.model_name()),
                    ": explicit model load / unload is not allowed; the models are a part of this server, and stay");
}

Result<inference::SystemSharedMemoryStatusResponse> Respond(const Sources& sources,
                                                            const inference::SystemSharedMemoryStatusRequest& request) {
  inference::SystemSharedMemoryStatusResponse response;
  const std::vector<SharedFiles::Entry> entries =
      sources.files == nullptr ? std::vector<SharedFiles::Entry>() : sources.files->List();
  for (const auto& [name, file] : entries) {
    if (!request.name().empty() && name != request.name()) continue;
    auto& region = (*response.mutable_regions())[name];
    region.set_name(name);
    region.set_key(file->key());
    region.set_offset(file->offset());
    region.set_byte_size(file->bytes());
  }
  if (!request.name().empty() && response.regions().empty()) return NoRegion(request.name());
  return response;
}

Result<inference::SystemSharedMemoryRegisterResponse> Respond(
    const Sources& sources, const inference::SystemSharedMemoryRegisterRequest& request) {
  if (sources.files == nullptr) return NoSharedMemory();
  absl::Status status = sources.files->Register(request.name(), request.key(), request.offset(), request.byte_size());
  if (!status.ok()) return status;
  return inference::SystemSharedMemoryRegisterResponse();
}

Result<inference::SystemSharedMemoryUnregisterResponse> Respond(
    const Sources& sources, const inference::SystemSharedMemoryUnregisterRequest& request) {
  if (sources.files != nullptr) sources.files->Unregister(request.name());
  return inference::SystemSharedMemoryUnregisterResponse();
}

Result<inference::CudaSharedMemoryStatusResponse> Respond(const Sources&,
                                                          const inference::CudaSharedMemoryStatusRequest& request) {
  if (!request.name().empty()) return NoRegion(request.name());
  return inference::CudaSharedMemoryStatusResponse();
}

Result<inference::CudaSharedMemoryRegisterResponse> Respond(const Sources&,
                                                            const inference::CudaSharedMemoryRegisterRequest&) {
  return absl::UnimplementedError(
      "CUDA memory of clients is not opened here; send tensors in raw_input_contents, or use regions of softmax.v1");
}

Result<inference::CudaSharedMemoryUnregisterResponse> Respond(const Sources&,
                                                              const inference::CudaSharedMemoryUnregisterRequest&) {
  return inference::CudaSharedMemoryUnregisterResponse();
}

Result<inference::TraceSettingResponse> Respond(const Sources&, const inference::TraceSettingRequest& request) {
  if (!request.model_name().empty() && FindInferModel(request.model_name(), "") == nullptr) {
    return NoInferModel("model_", request.model_name(), "");
  }
  if (!request.settings().empty()) {
    return NotAllowed("settings: ", Quoted(request.settings().begin()->first),
                      ": the server does not support tracing, and its settings stay; must have none");
  }
  inference::TraceSettingResponse response;
  (*response.mutable_settings())["trace_level"].add_value("OFF");
  return response;
}

Result<inference::LogSettingsResponse> Respond(const Sources&, const inference::LogSettingsRequest& request) {
  if (!request.settings().empty()) {
    return NotAllowed("settings: ", Quoted(request.settings().begin()->first),
                      ": settings of the log are the server's own flags; must have none");
  }
  inference::LogSettingsResponse response;
  auto& settings = *response.mutable_settings();
  settings["log_info"].set_bool_param(true);
  settings["log_warning"].set_bool_param(true);
  settings["log_error"].set_bool_param(true);
  settings["log_verbose_level"].set_uint32_param(0);
  settings["log_format"].set_string_param("default");
  settings["log_file"].set_string_param("");
  return response;
}

template <typename Request>
absl::StatusOr<grpc::ByteBuffer> AnswerTo(const Sources& sources, InferControlMethod::ReadRequest read) {
  Request request;
  if (absl::Status status = read(&request); !status.ok()) return status;
  const auto response = Respond(sources, request);
  if (!response.ok()) return response.status();
  return SerializeControl(*response);
}

constexpr InferControlMethod kMethods[] = {
    {"/inference.GRPCInferenceService/ServerLive", &AnswerTo<inference::ServerLiveRequest>},
    {"/inference.GRPCInferenceService/ServerReady", &AnswerTo<inference::ServerReadyRequest>},
    {"/inference.GRPCInferenceService/ModelReady", &AnswerTo<inference::ModelReadyRequest>},
    {"/inference.GRPCInferenceService/ServerMetadata", &AnswerTo<inference::ServerMetadataRequest>},
    {"/inference.GRPCInferenceService/ModelMetadata", &AnswerTo<inference::ModelMetadataRequest>},
    {"/inference.GRPCInferenceService/ModelConfig", &AnswerTo<inference::ModelConfigRequest>},
    {"/inference.GRPCInferenceService/ModelStatistics", &AnswerTo<inference::ModelStatisticsRequest>},
    {"/inference.GRPCInferenceService/RepositoryIndex", &AnswerTo<inference::RepositoryIndexRequest>},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", &AnswerTo<inference::RepositoryModelLoadRequest>},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", &AnswerTo<inference::RepositoryModelUnloadRequest>},
    {"/inference.GRPCInferenceService/SystemSharedMemoryStatus", &AnswerTo<inference::SystemSharedMemoryStatusRequest>},
    {"/inference.GRPCInferenceService/SystemSharedMemoryRegister",
     &AnswerTo<inference::SystemSharedMemoryRegisterRequest>},
    {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
     &AnswerTo<inference::SystemSharedMemoryUnregisterRequest>},
    {"/inference.GRPCInferenceService/CudaSharedMemoryStatus", &AnswerTo<inference::CudaSharedMemoryStatusRequest>},
    {"/inference.GRPCInferenceService/CudaSharedMemoryRegister", &AnswerTo<inference::CudaSharedMemoryRegisterRequest>},
    {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
     &AnswerTo<inference::CudaSharedMemoryUnregisterRequest>},
    {"/inference.GRPCInferenceService/TraceSetting", &AnswerTo<inference::TraceSettingRequest>},
    {"/inference.GRPCInferenceService/LogSettings", &AnswerTo<inference::LogSettingsRequest>},
};

}  // namespace

std::span<const InferControlMethod> InferControlMethods() { return kMethods; }

}  // namespace softmax::server
