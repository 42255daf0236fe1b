// The Open Inference Protocol's calls without tensors, as its public clients make them (docs/oip.md), and the pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/loadgen/scrape/http_get.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "tests/end_to_end/oip_fixture.h"

namespace softmax::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OipControl : public OipTest {};

TEST_F(OipControl, TellsThatItIsLiveAndReady) {
  EXPECT_TRUE(Ask(&GRPCInferenceService::Stub::ServerLive, inference::ServerLiveRequest()).live());
  EXPECT_TRUE(Ask(&GRPCInferenceService::Stub::ServerReady, inference::ServerReadyRequest()).ready());
}

TEST_F(OipControl, AModelThatIsNotHereIsNotReadyAndNoError) {
  const auto ready = [this](const std::string& name, const char* version) {
    inference::ModelReadyRequest request;
    request.set_name(name);
    request.set_version(version);
    return Ask(&GRPCInferenceService::Stub::ModelReady, request).ready();
  };
  for (const std::string& model : AllModels()) {
    EXPECT_TRUE(ready(model, "")) << model;
    EXPECT_TRUE(ready(model, "1")) << model;
  }
  EXPECT_FALSE(ready("softmax", "2"));
  EXPECT_FALSE(ready("resnet", ""));
  EXPECT_FALSE(ready("", ""));
}

TEST_F(OipControl, ServerMetadataListsWhatIsServed) {
  const auto metadata = Ask(&GRPCInferenceService::Stub::ServerMetadata, inference::ServerMetadataRequest());
  EXPECT_EQ(metadata.name(), "softmax-server");
  EXPECT_FALSE(metadata.version().empty());
  EXPECT_THAT(metadata.extensions(), ElementsAre("statistics", "model_configuration", "classification"));
}

TEST_F(OipControl, ModelMetadataAndConfigNameTheSameTensors) {
  const std::vector<std::string> models = AllModels();
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::string& model = models[i];
    inference::ModelMetadataRequest request;
    request.set_name(model);
    const auto metadata = Ask(&GRPCInferenceService::Stub::ModelMetadata, request);
    EXPECT_EQ(metadata.name(), model);
    EXPECT_THAT(metadata.versions(), ElementsAre("1"));
    EXPECT_FALSE(metadata.platform().empty());
    ASSERT_EQ(metadata.inputs_size(), 1);
    ASSERT_EQ(metadata.outputs_size(), 1);
    EXPECT_EQ(metadata.inputs(0).name(), "X");
    EXPECT_EQ(metadata.outputs(0).name(), "Y");
    EXPECT_EQ(metadata.inputs(0).datatype(), kTypes[i % 4]);
    EXPECT_EQ(metadata.outputs(0).datatype(), kTypes[i % 4]);
    EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, -1));
    EXPECT_THAT(metadata.outputs(0).shape(), ElementsAre(-1, -1));

    inference::ModelConfigRequest config_request;
    config_request.set_name(model);
    const auto config = Ask(&GRPCInferenceService::Stub::ModelConfig, config_request).config();
    constexpr inference::DataType kConfigTypes[] = {inference::TYPE_FP32, inference::TYPE_FP16, inference::TYPE_BF16,
                                                    inference::TYPE_FP64};
    EXPECT_EQ(config.name(), model);
    EXPECT_EQ(config.max_batch_size(), 1048576);
    ASSERT_EQ(config.input_size(), 1);
    ASSERT_EQ(config.output_size(), 1);
    EXPECT_EQ(config.input(0).name(), "X");
    EXPECT_EQ(config.output(0).name(), "Y");
    EXPECT_EQ(config.input(0).data_type(), kConfigTypes[i % 4]);
    EXPECT_EQ(config.output(0).data_type(), kConfigTypes[i % 4]);
    EXPECT_THAT(config.input(0).dims(), ElementsAre(-1));
    EXPECT_THAT(config.output(0).dims(), ElementsAre(-1));
    EXPECT_TRUE(config.has_dynamic_batching());
  }
  inference::ModelMetadataRequest unknown;
  unknown.set_name("resnet");
  const grpc::Status status = Fail(&GRPCInferenceService::Stub::ModelMetadata, unknown);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("resnet"), HasSubstr("log_softmax")));
  inference::ModelConfigRequest version;
  version.set_name("softmax");
  version.set_version("7");
  EXPECT_EQ(Fail(&GRPCInferenceService::Stub::ModelConfig, version).error_code(), grpc::NOT_FOUND);
}

// As Triton without model control: what would change something is UNAVAILABLE, and changes nothing.
TEST_F(OipControl, TheRepositoryHasTheModelsReadyAndKeepsThem) {
  const auto index = Ask(&GRPCInferenceService::Stub::RepositoryIndex, inference::RepositoryIndexRequest());
  const std::vector<std::string> models = AllModels();
  ASSERT_EQ(index.models_size(), static_cast<int>(models.size()));
  for (int i = 0; i < index.models_size(); ++i) {
    EXPECT_EQ(index.models(i).name(), models[static_cast<std::size_t>(i)]);
    EXPECT_EQ(index.models(i).version(), "1");
    EXPECT_EQ(index.models(i).state(), "READY");
  }
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("softmax_bf16");
  Ask(&GRPCInferenceService::Stub::RepositoryModelLoad, load);
  load.set_model_name("resnet");
  EXPECT_EQ(Fail(&GRPCInferenceService::Stub::RepositoryModelLoad, load).error_code(), grpc::NOT_FOUND);
  load.set_model_name("softmax");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  grpc::Status status = Fail(&GRPCInferenceService::Stub::RepositoryModelLoad, load);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("parameters: \"config\""), HasSubstr("not allowed")));
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("softmax");
  status = Fail(&GRPCInferenceService::Stub::RepositoryModelUnload, unload);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("model_name: \"softmax\""), HasSubstr("not allowed")));
  inference::ModelReadyRequest ready;
  ready.set_name("softmax");
  EXPECT_TRUE(Ask(&GRPCInferenceService::Stub::ModelReady, ready).ready());
  unload.set_model_name("resnet");
  EXPECT_EQ(Fail(&GRPCInferenceService::Stub::RepositoryModelUnload, unload).error_code(), grpc::NOT_FOUND);
}

TEST_F(OipControl, SharedMemoryIsEmptyAndRefusedWithWords) {
  using Stub = GRPCInferenceService::Stub;
  EXPECT_TRUE(Ask(&Stub::SystemSharedMemoryStatus, inference::SystemSharedMemoryStatusRequest()).regions().empty());
  EXPECT_TRUE(Ask(&Stub::CudaSharedMemoryStatus, inference::CudaSharedMemoryStatusRequest()).regions().empty());
  inference::SystemSharedMemoryStatusRequest system_status;
  system_status.set_name("input_data");
  grpc::Status status = Fail(&Stub::SystemSharedMemoryStatus, system_status);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("name: \"input_data\""));
  inference::CudaSharedMemoryStatusRequest cuda_status;
  cuda_status.set_name("input_data");
  EXPECT_EQ(Fail(&Stub::CudaSharedMemoryStatus, cuda_status).error_code(), grpc::NOT_FOUND);
  // As perf_analyzer begins and ends.
  Ask(&Stub::SystemSharedMemoryUnregister, inference::SystemSharedMemoryUnregisterRequest());
  Ask(&Stub::CudaSharedMemoryUnregister, inference::CudaSharedMemoryUnregisterRequest());
  inference::SystemSharedMemoryRegisterRequest system;
  system.set_name("region");
  EXPECT_EQ(Fail(&Stub::SystemSharedMemoryRegister, system).error_code(), grpc::UNIMPLEMENTED);
  inference::CudaSharedMemoryRegisterRequest cuda;
  cuda.set_raw_handle(std::string(64, '\0'));
  EXPECT_THAT(Fail(&Stub::CudaSharedMemoryRegister, cuda).error_message(), HasSubstr("raw_input_contents"));
}

TEST_F(OipControl, TellsTheSettingsOfTraceAndLog) {
  const auto trace = Ask(&GRPCInferenceService::Stub::TraceSetting, inference::TraceSettingRequest());
  EXPECT_THAT(trace.settings().at("trace_level").value(), ElementsAre("OFF"));
  const auto log = Ask(&GRPCInferenceService::Stub::LogSettings, inference::LogSettingsRequest());
  EXPECT_TRUE(log.settings().at("log_info").bool_param());
}

TEST_F(OipControl, ChangesOfTheSettingsAreRefusedWithWords) {
  inference::TraceSettingRequest trace;
  (*trace.mutable_settings())["trace_level"].add_value("TIMESTAMPS");
  grpc::Status status = Fail(&GRPCInferenceService::Stub::TraceSetting, trace);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("settings: \"trace_level\""));
  trace.mutable_settings()->at("trace_level").clear_value();  // as a client resets one
  EXPECT_EQ(Fail(&GRPCInferenceService::Stub::TraceSetting, trace).error_code(), grpc::UNAVAILABLE);
  inference::LogSettingsRequest log;
  (*log.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  status = Fail(&GRPCInferenceService::Stub::LogSettings, log);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("settings: \"log_verbose_level\""));
}

TEST_F(OipControl, AVersionIsANumber) {
  for (const char* const version : {"-1", "latest", "1x", " 1"}) {
    inference::ModelReadyRequest ready;
    ready.set_name("softmax");
    ready.set_version(version);
    const grpc::Status status = Fail(&GRPCInferenceService::Stub::ModelReady, ready);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << version;
    EXPECT_THAT(status.error_message(), HasSubstr("version: is \"" + std::string(version) + "\""));
    inference::ModelMetadataRequest metadata;
    metadata.set_name("softmax");
    metadata.set_version(version);
    EXPECT_EQ(Fail(&GRPCInferenceService::Stub::ModelMetadata, metadata).error_code(), grpc::INVALID_ARGUMENT);
  }
}

// As perf_analyzer reads them, before and after.
TEST_F(OipControl, StatisticsGrowWithWhatIsServed) {
  const inference::ModelStatistics before = Statistics("softmax");
  EXPECT_EQ(before.name(), "softmax");
  EXPECT_EQ(before.version(), "1");
  EXPECT_EQ(before.inference_stats().success().count(), 0u);
  EXPECT_EQ(before.last_inference(), 0u);
  ModelInferResponse response;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Infer(RequestOf(MakeQuestion({4, 8}, 1)), &response).ok());
  ModelInferRequest bad = RequestOf(MakeQuestion({4, 8}, 1));
  bad.mutable_inputs(0)->set_datatype("INT8");
  ASSERT_FALSE(Infer(bad, &response).ok());
  const inference::ModelStatistics after = Statistics("softmax");
  EXPECT_EQ(after.inference_count(), 40u);
  EXPECT_EQ(after.execution_count(), 10u);
  EXPECT_GT(after.last_inference(), 1'600'000'000'000u);
  const inference::InferStatistics& stats = after.inference_stats();
  EXPECT_EQ(stats.success().count(), 10u);
  EXPECT_GT(stats.success().ns(), 0u);
  EXPECT_EQ(stats.fail().count(), 1u);
  EXPECT_EQ(stats.queue().count(), 10u);
  EXPECT_EQ(stats.compute_input().count(), 10u);
  EXPECT_EQ(stats.compute_infer().count(), 10u);
  EXPECT_GT(stats.compute_infer().ns(), 0u);
  EXPECT_LE(stats.queue().ns() + stats.compute_infer().ns(), stats.success().ns());
  EXPECT_EQ(stats.compute_output().count(), 10u);
  // Of another model nothing was asked; all of them are told without a name.
  EXPECT_EQ(Statistics("log_softmax").inference_stats().success().count(), 0u);
  EXPECT_EQ(Ask(&GRPCInferenceService::Stub::ModelStatistics, inference::ModelStatisticsRequest()).model_stats_size(),
            8);
  inference::ModelStatisticsRequest unknown;
  unknown.set_name("resnet");
  EXPECT_EQ(Fail(&GRPCInferenceService::Stub::ModelStatistics, unknown).error_code(), grpc::NOT_FOUND);
}

TEST_F(OipControl, ReflectionKnowsTheService) {
  using grpc::reflection::v1alpha::ServerReflection;
  const auto context = Context();
  const auto stub = ServerReflection::NewStub(channel_);
  const auto stream = stub->ServerReflectionInfo(context.get());
  grpc::reflection::v1alpha::ServerReflectionRequest request;
  grpc::reflection::v1alpha::ServerReflectionResponse response;
  request.set_list_services("");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  EXPECT_THAT(response.DebugString(), HasSubstr("inference.GRPCInferenceService"));
  request.set_file_containing_symbol("inference.GRPCInferenceService");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  EXPECT_EQ(response.file_descriptor_response().file_descriptor_proto_size(), 2);
}

TEST_F(OipControl, TheMetricsPortHasSmallPages) {
  const auto get = [this](const std::string& path) {
    const auto location = client::ParseHttpLocation("http://" + service_.server().metrics_address() + path, "/");
    EXPECT_TRUE(location.ok());
    const auto body = client::HttpGet(*location, {});
    return body.ok() ? *body : std::string(body.status().message());
  };
  EXPECT_EQ(get("/v2/health/live"), "{\"live\":true}\n");
  EXPECT_THAT(get("/v2"), HasSubstr("\"name\":\"softmax-server\""));
  EXPECT_THAT(get("/v2/models/resnet"), HasSubstr("404"));
  EXPECT_THAT(get("/metrics"), AllOf(HasSubstr("method=\"ModelInfer\",protocol=\"oip\""),
                                     HasSubstr("method=\"Softmax\",protocol=\"native\"")));
}

}  // namespace
}  // namespace softmax::testing
