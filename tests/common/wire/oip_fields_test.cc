#include <absl/strings/str_join.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "inference/inference.pb.h"

// The protocol is its names and numbers: a table of them as they are published, against our words.
namespace softmax::testing {
namespace {

struct Published {
  const char* message;
  const char* fields;  // in the order of their numbers
};
constexpr Published kMessages[] = {
    {"CudaSharedMemoryRegisterRequest", "name=1 raw_handle=2 device_id=3 byte_size=4"},
    {"CudaSharedMemoryStatusRequest", "name=1"},
    {"CudaSharedMemoryStatusResponse", "regions=1"},
    {"CudaSharedMemoryStatusResponse.RegionStatus", "name=1 device_id=2 byte_size=3"},
    {"CudaSharedMemoryUnregisterRequest", "name=1"},
    {"InferParameter", "bool_param=1 int64_param=2 string_param=3 double_param=4 uint64_param=5"},
    {"InferStatistics",
     "success=1 fail=2 queue=3 compute_input=4 compute_infer=5 compute_output=6 cache_hit=7 cache_miss=8"},
    {"InferTensorContents",
     "bool_contents=1 int_contents=2 int64_contents=3 uint_contents=4 uint64_contents=5 fp32_contents=6 "
     "fp64_contents=7 bytes_contents=8"},
    {"LogSettingsRequest", "settings=1"},
    {"LogSettingsRequest.SettingValue", "bool_param=1 uint32_param=2 string_param=3"},
    {"LogSettingsResponse", "settings=1"},
    {"LogSettingsResponse.SettingValue", "bool_param=1 uint32_param=2 string_param=3"},
    {"ModelConfig", "name=1 platform=2 max_batch_size=4 input=5 output=6 dynamic_batching=11 backend=17"},
    {"ModelConfigRequest", "name=1 version=2"},
    {"ModelConfigResponse", "config=1"},
    {"ModelInferRequest", "model_name=1 model_version=2 id=3 parameters=4 inputs=5 outputs=6 raw_input_contents=7"},
    {"ModelInferRequest.InferInputTensor", "name=1 datatype=2 shape=3 parameters=4 contents=5"},
    {"ModelInferRequest.InferRequestedOutputTensor", "name=1 parameters=2"},
    {"ModelInferResponse", "model_name=1 model_version=2 id=3 parameters=4 outputs=5 raw_output_contents=6"},
    {"ModelInferResponse.InferOutputTensor", "name=1 datatype=2 shape=3 parameters=4 contents=5"},
    {"ModelInput", "name=1 data_type=2 dims=4"},
    {"ModelMetadataRequest", "name=1 version=2"},
    {"ModelMetadataResponse", "name=1 versions=2 platform=3 inputs=4 outputs=5"},
    {"ModelMetadataResponse.TensorMetadata", "name=1 datatype=2 shape=3"},
    {"ModelOutput", "name=1 data_type=2 dims=3"},
    {"ModelReadyRequest", "name=1 version=2"},
    {"ModelReadyResponse", "ready=1"},
    {"ModelRepositoryParameter", "bool_param=1 int64_param=2 string_param=3 bytes_param=4"},
    {"ModelStatistics", "name=1 version=2 last_inference=3 inference_count=4 execution_count=5 inference_stats=6"},
    {"ModelStatisticsRequest", "name=1 version=2"},
    {"ModelStatisticsResponse", "model_stats=1"},
    {"ModelStreamInferResponse", "error_message=1 infer_response=2"},
    {"RepositoryIndexRequest", "repository_name=1 ready=2"},
    {"RepositoryIndexResponse", "models=1"},
    {"RepositoryIndexResponse.ModelIndex", "name=1 version=2 state=3 reason=4"},
    {"RepositoryModelLoadRequest", "repository_name=1 model_name=2 parameters=3"},
    {"RepositoryModelUnloadRequest", "repository_name=1 model_name=2 parameters=3"},
    {"ServerLiveResponse", "live=1"},
    {"ServerMetadataResponse", "name=1 version=2 extensions=3"},
    {"ServerReadyResponse", "ready=1"},
    {"StatisticDuration", "count=1 ns=2"},
    {"SystemSharedMemoryRegisterRequest", "name=1 key=2 offset=3 byte_size=4"},
    {"SystemSharedMemoryStatusRequest", "name=1"},
    {"SystemSharedMemoryStatusResponse", "regions=1"},
    {"SystemSharedMemoryStatusResponse.RegionStatus", "name=1 key=2 offset=3 byte_size=4"},
    {"SystemSharedMemoryUnregisterRequest", "name=1"},
    {"TraceSettingRequest", "settings=1 model_name=2"},
    {"TraceSettingRequest.SettingValue", "value=1"},
    {"TraceSettingResponse", "settings=1"},
    {"TraceSettingResponse.SettingValue", "value=1"},
};

constexpr char kMethods[] =  // in their order
    "CudaSharedMemoryRegister CudaSharedMemoryStatus CudaSharedMemoryUnregister LogSettings ModelConfig ModelInfer "
    "ModelMetadata ModelReady ModelStatistics ModelStreamInfer RepositoryIndex RepositoryModelLoad "
    "RepositoryModelUnload ServerLive ServerMetadata ServerReady SystemSharedMemoryRegister SystemSharedMemoryStatus "
    "SystemSharedMemoryUnregister TraceSetting";

const google::protobuf::FileDescriptor& File() { return *inference::ModelInferRequest::descriptor()->file(); }

TEST(OipFields, HaveThePublishedNamesAndNumbers) {
  for (const Published& published : kMessages) {
    const std::string name = std::string("inference.") + published.message;
    const auto* const message = File().pool()->FindMessageTypeByName(name);
    ASSERT_NE(message, nullptr) << name;
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    for (int i = 0; i < message->field_count(); ++i) fields.push_back(message->field(i));
    std::sort(fields.begin(), fields.end(), [](const auto* a, const auto* b) { return a->number() < b->number(); });
    std::string ours;
    for (const auto* const field : fields) {
      ours += (ours.empty() ? "" : " ") + field->name() + "=" + std::to_string(field->number());
    }
    EXPECT_EQ(ours, published.fields) << name;
  }
}

TEST(OipFields, TheServiceHasThePublishedMethods) {
  const auto* const service = File().FindServiceByName("GRPCInferenceService");
  ASSERT_NE(service, nullptr);
  std::set<std::string> methods;
  for (int i = 0; i < service->method_count(); ++i) {
    const auto& method = *service->method(i);
    methods.insert(method.name());
    const bool streams = method.name() == "ModelStreamInfer";
    EXPECT_EQ(method.client_streaming(), streams) << method.name();
    EXPECT_EQ(method.server_streaming(), streams) << method.name();
    EXPECT_EQ(method.input_type()->name(),
              method.name() == "ModelStreamInfer" ? "ModelInferRequest" : method.name() + "Request");
    EXPECT_EQ(method.output_type()->name(), method.name() + "Response");
  }
  EXPECT_EQ(absl::StrJoin(methods, " "), kMethods);
}

TEST(OipFields, TheTypesOfAConfigurationAreThePublishedOnes) {
  using D = inference::DataType;
  const std::vector<std::pair<D, int>> published = {{D::TYPE_INVALID, 0}, {D::TYPE_BOOL, 1},  {D::TYPE_FP16, 10},
                                                    {D::TYPE_FP32, 11},   {D::TYPE_FP64, 12}, {D::TYPE_BF16, 14},
                                                    {D::TYPE_STRING, 13}, {D::TYPE_INT64, 9}};
  for (const auto& [type, number] : published) EXPECT_EQ(static_cast<int>(type), number);
}

}  // namespace
}  // namespace softmax::testing
