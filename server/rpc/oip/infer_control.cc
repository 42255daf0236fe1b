#include "server/rpc/oip/infer_control.h"

#include <absl/strings/str_cat.h>

#include <chrono>

#include "common/base/safe_text.h"
#include "server/rpc/calls/control_message.h"

namespace softmax::server {
namespace {

constexpr char kVersion[] = "1";
constexpr char kPlatform[] = "softmax";
// Above 0 some clients take the first dimension as the batch's, so that they can be told its size alone.
constexpr int kMaxBatchSize = 1 << 20;

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", SafeText(text, TextFor::kPeople, kExcerptBytes), "\"");
}

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
  return absl::UnimplementedError("shared memory is not served here; send tensors in raw_input_contents");
}

inference::DataType ConfigTypeOf(kernels::DataType type) {
  switch (type) {
    case kernels::DataType::kFloat32:
      return inference::TYPE_FP32;
    case kernels::DataType::kFloat16:
      return inference::TYPE_FP16;
    case kernels::DataType::kBFloat16:
      return inference::TYPE_BF16;
    case kernels::DataType::kFloat64:
      return inference::TYPE_FP64;
  }
  return inference::TYPE_INVALID;
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

}  // namespace

absl::StatusOr<inference::ServerLiveResponse> InferControl::Answer(const inference::ServerLiveRequest&) const {
  inference::ServerLiveResponse response;
  response.set_live(sources_.health.Check("liveness") == Health::Status::kServing);
  return response;
}

absl::StatusOr<inference::ServerReadyResponse> InferControl::Answer(const inference::ServerReadyRequest&) const {
  inference::ServerReadyResponse response;
  response.set_ready(sources_.health.ready());
  return response;
}

absl::StatusOr<inference::ModelReadyResponse> InferControl::Answer(const inference::ModelReadyRequest& request) const {
  const InferModel* const model = FindInferModel(request.name(), request.version());
  if (model == nullptr) {
    // A model or version that is not here is not ready; what can be no version is an error.
    absl::Status status = NoModel(request.name(), request.version());
    if (!absl::IsNotFound(status)) return status;
  }
  inference::ModelReadyResponse response;
  response.set_ready(model != nullptr && sources_.health.ready());
  return response;
}

absl::StatusOr<inference::ServerMetadataResponse> InferControl::Answer(const inference::ServerMetadataRequest&) const {
  inference::ServerMetadataResponse response;
  response.set_name("softmax-server");
  response.set_version(sources_.version);
  response.add_extensions("statistics");
  response.add_extensions("model_configuration");
  response.add_extensions("classification");
  return response;
}

absl::StatusOr<inference::ModelMetadataResponse> InferControl::Answer(
    const inference::ModelMetadataRequest& request) const {
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

absl::StatusOr<inference::ModelConfigResponse> InferControl::Answer(
    const inference::ModelConfigRequest& request) const {
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

void InferControl::AddStatistics(const InferModel& model, inference::ModelStatisticsResponse* response) const {
  const ModelTotals totals = sources_.statistics.Totals(IndexOf(model, InferModels()));
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

absl::StatusOr<inference::ModelStatisticsResponse> InferControl::Answer(
    const inference::ModelStatisticsRequest& request) const {
  inference::ModelStatisticsResponse response;
  if (request.name().empty()) {
    for (const InferModel& model : InferModels()) AddStatistics(model, &response);
    return response;
  }
  const InferModel* const model = FindInferModel(request.name(), request.version());
  if (model == nullptr) return NoModel(request.name(), request.version());
  AddStatistics(*model, &response);
  return response;
}

absl::StatusOr<inference::RepositoryIndexResponse> InferControl::Answer(
    const inference::RepositoryIndexRequest& request) const {
  inference::RepositoryIndexResponse response;
  const bool ready = sources_.health.ready();
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

absl::StatusOr<inference::RepositoryModelLoadResponse> InferControl::Answer(
    const inference::RepositoryModelLoadRequest& request) const {
  if (FindInferModel(request.model_name(), "") == nullptr) return NoInferModel("model_", request.model_name(), "");
  if (!request.parameters().empty()) {
    return NotAllowed(
        "parameters: ", Quoted(request.parameters().begin()->first),
        ": explicit model load / unload is not allowed; the models are a part of this server, and loaded");
  }
  return inference::RepositoryModelLoadResponse();
}

absl::StatusOr<inference::RepositoryModelUnloadResponse> InferControl::Answer(
    const inference::RepositoryModelUnloadRequest& request) const {
  if (FindInferModel(request.model_name(), "") == nullptr) return NoInferModel("model_", request.model_name(), "");
  return NotAllowed("model_name: ", Quoted(request.model_name()),
                    ": explicit model load / unload is not allowed; the models are a part of this server, and stay");
}

absl::StatusOr<inference::SystemSharedMemoryStatusResponse> InferControl::Answer(
    const inference::SystemSharedMemoryStatusRequest& request) const {
  if (!request.name().empty()) return NoRegion(request.name());
  return inference::SystemSharedMemoryStatusResponse();
}

absl::StatusOr<inference::SystemSharedMemoryRegisterResponse> InferControl::Answer(
    const inference::SystemSharedMemoryRegisterRequest&) const {
  return NoSharedMemory();
}

absl::StatusOr<inference::SystemSharedMemoryUnregisterResponse> InferControl::Answer(
    const inference::SystemSharedMemoryUnregisterRequest&) const {
  return inference::SystemSharedMemoryUnregisterResponse();
}

absl::StatusOr<inference::CudaSharedMemoryStatusResponse> InferControl::Answer(
    const inference::CudaSharedMemoryStatusRequest& request) const {
  if (!request.name().empty()) return NoRegion(request.name());
  return inference::CudaSharedMemoryStatusResponse();
}

absl::StatusOr<inference::CudaSharedMemoryRegisterResponse> InferControl::Answer(
    const inference::CudaSharedMemoryRegisterRequest&) const {
  return NoSharedMemory();
}

absl::StatusOr<inference::CudaSharedMemoryUnregisterResponse> InferControl::Answer(
    const inference::CudaSharedMemoryUnregisterRequest&) const {
  return inference::CudaSharedMemoryUnregisterResponse();
}

absl::StatusOr<inference::TraceSettingResponse> InferControl::Answer(
    const inference::TraceSettingRequest& request) const {
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

absl::StatusOr<inference::LogSettingsResponse> InferControl::Answer(
    const inference::LogSettingsRequest& request) const {
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

}  // namespace softmax::server
