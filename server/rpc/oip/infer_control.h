#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "inference/inference.pb.h"
#include "server/rpc/health/health.h"
#include "server/rpc/oip/model_statistics.h"

// The answers to the Open Inference Protocol's calls that bring no tensor. No gRPC here.
namespace softmax::server {

// What they are made from.
struct InferControlSources {
  const Health& health;
  const ModelStatistics& statistics;
  std::string version;  // the server's
};

class InferControl {
 public:
  explicit InferControl(InferControlSources sources) : sources_(std::move(sources)) {}

  template <typename Response>
  using Result = absl::StatusOr<Response>;

  Result<inference::ServerLiveResponse> Answer(const inference::ServerLiveRequest& request) const;
  Result<inference::ServerReadyResponse> Answer(const inference::ServerReadyRequest& request) const;
  Result<inference::ModelReadyResponse> Answer(const inference::ModelReadyRequest& request) const;
  Result<inference::ServerMetadataResponse> Answer(const inference::ServerMetadataRequest& request) const;
  Result<inference::ModelMetadataResponse> Answer(const inference::ModelMetadataRequest& request) const;
  Result<inference::ModelConfigResponse> Answer(const inference::ModelConfigRequest& request) const;
  Result<inference::ModelStatisticsResponse> Answer(const inference::ModelStatisticsRequest& request) const;
  Result<inference::RepositoryIndexResponse> Answer(const inference::RepositoryIndexRequest& request) const;
  Result<inference::RepositoryModelLoadResponse> Answer(const inference::RepositoryModelLoadRequest& request) const;
  Result<inference::RepositoryModelUnloadResponse> Answer(const inference::RepositoryModelUnloadRequest& request) const;
  Result<inference::SystemSharedMemoryStatusResponse> Answer(
      const inference::SystemSharedMemoryStatusRequest& request) const;
  Result<inference::SystemSharedMemoryRegisterResponse> Answer(
      const inference::SystemSharedMemoryRegisterRequest& request) const;
  Result<inference::SystemSharedMemoryUnregisterResponse> Answer(
      const inference::SystemSharedMemoryUnregisterRequest& request) const;
  Result<inference::CudaSharedMemoryStatusResponse> Answer(
      const inference::CudaSharedMemoryStatusRequest& request) const;
  Result<inference::CudaSharedMemoryRegisterResponse> Answer(
      const inference::CudaSharedMemoryRegisterRequest& request) const;
  Result<inference::CudaSharedMemoryUnregisterResponse> Answer(
      const inference::CudaSharedMemoryUnregisterRequest& request) const;
  Result<inference::TraceSettingResponse> Answer(const inference::TraceSettingRequest& request) const;
  Result<inference::LogSettingsResponse> Answer(const inference::LogSettingsRequest& request) const;

 private:
  void AddStatistics(const InferModel& model, inference::ModelStatisticsResponse* response) const;

  const InferControlSources sources_;
};

}  // namespace softmax::server
