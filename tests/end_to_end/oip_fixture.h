#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "inference/inference.grpc.pb.h"
#include "kernels/operations.h"
#include "tests/end_to_end/service.h"

namespace softmax::testing {

using inference::GRPCInferenceService;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

inline constexpr const char* kTypes[] = {"FP32", "FP16", "BF16", "FP64"};
inline constexpr const char* kModelEndings[] = {"", "_fp16", "_bf16", "_fp64"};

// Every operation under its four names.
inline std::vector<std::string> AllModels() {
  std::vector<std::string> models;
  for (const kernels::OperationTraits& traits : kernels::kOperations) {
    for (const char* ending : kModelEndings) models.push_back(std::string(traits.name) + ending);
  }
  return models;
}

inline const char* OipTypeOf(kernels::DataType type) { return kTypes[static_cast<int>(type) - 1]; }

inline std::string Bytes(const std::vector<std::byte>& data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

inline ModelInferRequest RequestOf(const Question& question, const std::string& id = "") {
  ModelInferRequest request;
  request.set_model_name(kernels::TraitsOf(question.operation).name);
  request.set_id(id);
  auto* const input = request.add_inputs();
  input->set_name("X");
  input->set_datatype(OipTypeOf(question.input_type));
  for (const std::int64_t dim : question.shape) input->add_shape(dim);
  request.add_raw_input_contents(Bytes(question.data));
  if (question.axis != -1) (*request.mutable_parameters())["axis"].set_int64_param(question.axis);
  if (question.scale != 1) (*request.mutable_parameters())["scale"].set_double_param(question.scale);
  if (question.output_type != question.input_type) {
    (*request.mutable_parameters())["output_dtype"].set_string_param(OipTypeOf(question.output_type));
  }
  return request;
}

inline void ExpectRight(const Question& question, const ModelInferResponse& response, int output = 0) {
  ASSERT_LT(output, response.outputs_size());
  ASSERT_EQ(response.raw_output_contents_size(), response.outputs_size());
  const auto& tensor = response.outputs(output);
  EXPECT_EQ(tensor.datatype(), OipTypeOf(question.output_type));
  EXPECT_EQ(std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end()), question.shape);
  EXPECT_FALSE(tensor.has_contents());
  const std::string& raw = response.raw_output_contents(output);
  std::vector<std::byte> answer(raw.size());  // aligned
  if (!raw.empty()) std::memcpy(answer.data(), raw.data(), raw.size());
  const kernels::Judgement judgement = JudgeAnswer(question, answer);
  EXPECT_TRUE(judgement.ok) << judgement.message;
}

class OipTest : public ::testing::Test {
 protected:
  explicit OipTest(const Service::Edit& edit = {})
      : service_(edit), channel_(service_.NewChannel()), stub_(GRPCInferenceService::NewStub(channel_)) {}

  std::unique_ptr<grpc::ClientContext> Context() const {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return context;
  }
  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response) {
    return stub_->ModelInfer(Context().get(), request, response);
  }
  // The call of a method that brings no tensor, which must succeed.
  template <typename Response, typename Request>
  Response Ask(grpc::Status (GRPCInferenceService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
               const Request& request = {}) {
    Response response;
    const grpc::Status status = (stub_.get()->*method)(Context().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  template <typename Response, typename Request>
  grpc::Status Fail(grpc::Status (GRPCInferenceService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request) {
    Response response;
    const grpc::Status status = (stub_.get()->*method)(Context().get(), request, &response);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(status.error_message().empty());  // which Triton's C++ client would take for success
    return status;
  }
  inference::ModelStatistics Statistics(const std::string& model) {
    inference::ModelStatisticsRequest request;
    request.set_name(model);
    const auto response = Ask(&GRPCInferenceService::Stub::ModelStatistics, request);
    EXPECT_EQ(response.model_stats_size(), 1);
    return response.model_stats(0);
  }

  Service service_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<GRPCInferenceService::Stub> stub_;
};

}  // namespace softmax::testing
