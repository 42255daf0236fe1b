#include "client/loadgen/plan/oip_message.h"

#include <gtest/gtest.h>

#include "client/loadgen/plan/workload.h"
#include "inference/inference.pb.h"

namespace softmax::client {
namespace {

TEST(OipMessageTest, EveryMessageIsARequestOfItsShape) {
  LoadOptions options;
  options.protocol = Protocol::kOip;
  options.mix.shapes = {{{3, 5}, 1}, {{2, 700, 2}, 1}};
  options.mix.dtypes = {{DataType::kFloat32, 1}, {DataType::kBFloat16, 1}};
  options.mix.operations = {{Operation::kSoftmax, 1}, {Operation::kLogSoftmax, 1}};
  options.axis = -2;
  options.scale = 0.5;
  options.output_dtype = DataType::kFloat64;
  const Workload workload = Workload::Build(options);
  for (const Variant& variant : workload.variants()) {
    inference::ModelInferRequest request;
    ASSERT_TRUE(request.ParseFromString(variant.message));
    EXPECT_EQ(request.model_name(), variant.operation == Operation::kSoftmax ? "softmax" : "log_softmax");
    EXPECT_EQ(request.id(), std::to_string(variant.id));
    ASSERT_EQ(request.inputs_size(), 1);
    EXPECT_EQ(request.inputs(0).name(), "X");
    EXPECT_EQ(request.inputs(0).datatype(), variant.dtype == DataType::kFloat32 ? "FP32" : "BF16");
    EXPECT_EQ(std::vector<std::int64_t>(request.inputs(0).shape().begin(), request.inputs(0).shape().end()),
              variant.shape);
    ASSERT_EQ(request.raw_input_contents_size(), 1);
    EXPECT_EQ(request.raw_input_contents(0).size(), variant.payload().size());
    EXPECT_EQ(request.parameters().at("axis").int64_param(), -2);
    EXPECT_EQ(request.parameters().at("scale").double_param(), 0.5);
    EXPECT_EQ(request.parameters().at("output_dtype").string_param(), "FP64");
  }
}

TEST(OipMessageTest, AMessageAsksForWhatItsClassAsksFor) {
  LoadOptions options;
  options.protocol = Protocol::kOip;
  options.mix.shapes = {{{3, 50}, 1}};
  options.mix.answers = {{{}, 1}, {{.top_k = 20}, 1}, {{.log_sum_exp = true}, 1}, {{.entropy = true}, 1}};
  const Workload workload = Workload::Build(options);
  for (const Variant& variant : workload.variants()) {
    inference::ModelInferRequest request;
    ASSERT_TRUE(request.ParseFromString(variant.message));
    EXPECT_EQ(request.parameters_size(), variant.answer.any() ? 1 : 0);
    auto& parameters = *request.mutable_parameters();
    EXPECT_EQ(parameters["top_k"].int64_param(), variant.answer.top_k);
    EXPECT_EQ(parameters["log_sum_exp"].bool_param(), variant.answer.log_sum_exp);
    EXPECT_EQ(parameters["entropy"].bool_param(), variant.answer.entropy);
  }
}

void AddOutput(const std::string& name, const std::string& datatype, const std::vector<std::int64_t>& shape,
               const std::string& raw, inference::ModelInferResponse* response) {
  auto* const output = response->add_outputs();
  output->set_name(name);
  output->set_datatype(datatype);
  output->mutable_shape()->Assign(shape.begin(), shape.end());
  response->add_raw_output_contents(raw);
}

absl::Status Decode(const inference::ModelInferResponse& response, std::string* bytes, ResponseFields* fields) {
  *bytes = response.SerializeAsString();
  const std::span<const std::uint8_t> pieces[] = {
      {reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size()}};
  return DecodeInferResponse(pieces, fields);
}

TEST(OipMessageTest, FurtherOutputsAreTheSummarysParts) {
  inference::ModelInferResponse response;
  AddOutput("Y_entropy", "FP64", {2, 1}, "EEEEEEEEeeeeeeee", &response);
  AddOutput("Y_top_values", "FP16", {2, 1}, "VVvv", &response);
  AddOutput("Y", "FP32", {2, 1}, "TTTTtttt", &response);
  AddOutput("Y_top_indices", "INT32", {2, 1}, "IIIIiiii", &response);
  AddOutput("Y_log_sum_exp", "FP64", {2, 1}, "LLLLLLLLllllllll", &response);
  AddOutput("Y_maximum", "FP64", {2, 1}, "MMMMMMMMmmmmmmmm", &response);
  std::string bytes;
  ResponseFields fields;
  ASSERT_TRUE(Decode(response, &bytes, &fields).ok());
  const auto part = [&](Summary::Part at) { return bytes.substr(fields.part_offset[at], fields.part_bytes[at]); };
  EXPECT_TRUE(fields.has_summary);
  EXPECT_EQ(part(Summary::kEntropy), "EEEEEEEEeeeeeeee");
  EXPECT_EQ(part(Summary::kTopValues), "VVvv");
  EXPECT_EQ(part(Summary::kTopIndices), "IIIIiiii");
  EXPECT_EQ(part(Summary::kLogSumExp), "LLLLLLLLllllllll");
  EXPECT_EQ(part(Summary::kMaximum), "MMMMMMMMmmmmmmmm");
  EXPECT_EQ(fields.part_bytes[Summary::kValuesAt], 0u);
  EXPECT_EQ(bytes.substr(fields.payload_offset, fields.payload_bytes), "TTTTtttt");
}

TEST(OipMessageTest, AFurtherOutputOfOtherBytesThanItsTypeAndShapeAreIsRefused) {
  const auto refused = [](const std::string& name, const std::string& datatype, std::int64_t k) {
    inference::ModelInferResponse response;
    AddOutput(name, datatype, {2, k}, "aaaabbbb", &response);
    std::string bytes;
    ResponseFields fields;
    return !Decode(response, &bytes, &fields).ok();
  };
  EXPECT_FALSE(refused("Y_entropy", "FP32", 1));
  EXPECT_FALSE(refused("Y_top_indices", "INT32", 1));
  EXPECT_TRUE(refused("Y_entropy", "FP32", 2));
  EXPECT_TRUE(refused("Y_entropy", "FP64", 1));
  EXPECT_TRUE(refused("Y_entropy", "INT32", 1));
  EXPECT_TRUE(refused("Y_top_indices", "FP32", 1));
  EXPECT_TRUE(refused("Y_top_indices", "INT32", -1));
}

TEST(OipMessageTest, AnAnswerIsRead) {
  inference::ModelInferResponse response;
  response.set_model_name("softmax");
  response.set_id("42");
  auto* const output = response.add_outputs();
  output->set_name("Y");
  output->set_datatype("FP16");
  output->add_shape(2);
  output->add_shape(300);
  response.add_raw_output_contents("abcd");
  const std::string bytes = response.SerializeAsString();
  const std::span<const std::uint8_t> pieces[] = {
      {reinterpret_cast<const std::uint8_t*>(bytes.data()), 9},
      {reinterpret_cast<const std::uint8_t*>(bytes.data()) + 9, bytes.size() - 9}};
  ResponseFields fields;
  ASSERT_TRUE(DecodeInferResponse(pieces, &fields).ok());
  EXPECT_EQ(fields.id, 42u);
  EXPECT_EQ(fields.dtype, static_cast<std::uint64_t>(DataType::kFloat16));
  EXPECT_EQ(fields.rank, 2u);
  EXPECT_EQ(fields.shape[1], 300);
  EXPECT_TRUE(fields.has_output);
  EXPECT_EQ(fields.payload_bytes, 4u);
  EXPECT_EQ(bytes.substr(fields.payload_offset, 4), "abcd");
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const std::span<const std::uint8_t> cut[] = {{reinterpret_cast<const std::uint8_t*>(bytes.data()), size}};
    const bool whole = DecodeInferResponse(cut, &fields).ok() && fields.has_output;
    EXPECT_FALSE(whole) << size;
  }
}

}  // namespace
}  // namespace softmax::client
