#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/wire/decode.h"
#include "common/wire/oip_decode.h"
#include "common/wire/oip_models.h"
#include "inference/inference.pb.h"
#include "tests/common/wire/counting_new.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

// Bad forms of ModelInferRequest: every one gets its code and words.
namespace softmax::testing {
namespace {

using inference::ModelInferRequest;

ModelInferRequest Good() {
  ModelInferRequest request;
  request.set_model_name("softmax");
  request.set_id("7");
  auto* const input = request.add_inputs();
  input->set_name("X");
  input->set_datatype("FP32");
  input->add_shape(2);
  input->add_shape(3);
  request.add_raw_input_contents(std::string(24, '\x3c'));
  return request;
}

InferRequest Decode(const std::string& bytes) {
  const SlicedMessage message(bytes, {3, 11});
  InferRequest request;
  DecodeInferRequest(message.slices(), WireLimits{}, &request);
  return request;
}

// Bad requests, each with its code and words.
struct Bad {
  const char* name;
  absl::StatusCode code;
  const char* says;
  std::function<void(ModelInferRequest*)> spoil;
};

std::vector<Bad> BadRequests() {
  using R = ModelInferRequest;
  const auto parameter = [](const char* key, auto set) {
    return [key, set](R* r) { set(&(*r->mutable_parameters())[key]); };
  };
  using P = inference::InferParameter;
  const auto best = [&](std::int64_t k) { return parameter("top_k", [k](P* p) { p->set_int64_param(k); }); };
  const auto classes = [](std::int64_t count, const char* output) {
    return [=](R* r) {
      (*r->mutable_parameters())["entropy"].set_bool_param(true);
      r->add_outputs()->set_name(output);
      (*r->mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(count);
    };
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  return {
      {"no model", kNotFound, "model_name", [](R* r) { r->clear_model_name(); }},
      {"another model", kNotFound, "\"resnet\"", [](R* r) { r->set_model_name("resnet"); }},
      {"another version", kNotFound, "model_version", [](R* r) { r->set_model_version("2"); }},
      {"a version below 0", kInvalid, "model_version: is \"-1\"", [](R* r) { r->set_model_version("-1"); }},
      {"a version that is no number", kInvalid, "model_version: is \"latest\"",
       [](R* r) { r->set_model_version("latest"); }},
      {"no input", kInvalid, "has 0 tensors",
       [](R* r) {
         r->clear_inputs();
         r->clear_raw_input_contents();
       }},
      {"one name twice", kInvalid, "inputs[1].name",
       [](R* r) {
         *r->add_inputs() = r->inputs(0);
         r->add_raw_input_contents(r->raw_input_contents(0));
       }},
      {"another name", kInvalid, "inputs[0].name", [](R* r) { r->mutable_inputs(0)->set_name("A"); }},
      {"no name", kInvalid, "inputs[0].name", [](R* r) { r->mutable_inputs(0)->clear_name(); }},
      {"a long name", kInvalid, "inputs[0].name", [](R* r) { r->mutable_inputs(0)->set_name(std::string(65, 'X')); }},
      {"another datatype", kInvalid, "inputs[0].datatype: is \"INT8\"",
       [](R* r) { r->mutable_inputs(0)->set_datatype("INT8"); }},
      {"a datatype in small letters", kInvalid, "\"fp32\"", [](R* r) { r->mutable_inputs(0)->set_datatype("fp32"); }},
      {"no datatype", kInvalid, "datatype", [](R* r) { r->mutable_inputs(0)->clear_datatype(); }},
      {"no shape", kInvalid, "inputs[0].shape: has rank 0", [](R* r) { r->mutable_inputs(0)->clear_shape(); }},
      {"rank 9", kInvalid, "inputs[0].shape: has rank 10",
       [](R* r) {
         for (int i = 0; i < 8; ++i) r->mutable_inputs(0)->add_shape(1);
       }},
      {"a negative dimension", kInvalid, "dimension 0 is -1", [](R* r) { r->mutable_inputs(0)->set_shape(0, -1); }},
      {"a shape that overflows", kInvalid, "product", [](R* r) { r->mutable_inputs(0)->set_shape(0, INT64_MAX / 2); }},
      {"data too short", kInvalid, "raw_input_contents[0]: has 23 bytes; must be 24",
       [](R* r) { r->mutable_raw_input_contents(0)->resize(23); }},
      {"data too long", kInvalid, "raw_input_contents[0]: has 25 bytes; must be 24",
       [](R* r) { r->mutable_raw_input_contents(0)->resize(25); }},
      {"no data", kInvalid, "inputs[0].contents: has 0 bytes; must be 24", [](R* r) { r->clear_raw_input_contents(); }},
      {"two raw values for one input", kInvalid, "raw_input_contents: has 2 values; must have 1",
       [](R* r) { r->add_raw_input_contents(""); }},
      {"raw and typed", kInvalid, "inputs[0].contents",
       [](R* r) { r->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); }},
      {"typed of too few values", kInvalid, "inputs[0].contents: has 4 bytes; must be 24",
       [](R* r) {
         r->clear_raw_input_contents();
         r->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
       }},
      {"typed of another type", kInvalid, "must have only fp32_contents",
       [](R* r) {
         r->clear_raw_input_contents();
         for (int i = 0; i < 6; ++i) r->mutable_inputs(0)->mutable_contents()->add_int_contents(1);
       }},
      {"typed FP16", kInvalid, "FP16 has no typed contents",
       [](R* r) {
         r->clear_raw_input_contents();
         r->mutable_inputs(0)->set_datatype("FP16");
         for (int i = 0; i < 6; ++i) r->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
       }},
      {"an unknown parameter", kInvalid, "\"temperature\"",
       parameter("temperature", [](P* p) { p->set_double_param(1); })},
      {"an axis that is none", kInvalid, "axis: is 2", parameter("axis", [](P* p) { p->set_int64_param(2); })},
      {"an axis of 2^40", kInvalid, "axis: is ", parameter("axis", [](P* p) { p->set_int64_param(1ll << 40); })},
      {"an axis as text", kInvalid, "parameters[\"axis\"]: has a string_param",
       parameter("axis", [](P* p) { p->set_string_param("1"); })},
      {"an axis without a value", kInvalid, "has no value", parameter("axis", [](P*) {})},
      {"a scale of 0", kInvalid, "scale: is 0", parameter("scale", [](P* p) { p->set_double_param(0); })},
      {"a scale as a truth", kInvalid, "bool_param", parameter("scale", [](P* p) { p->set_bool_param(true); })},
      {"another output_dtype", kInvalid, "\"INT8\"",
       parameter("output_dtype", [](P* p) { p->set_string_param("INT8"); })},
      {"an output_dtype as a number", kInvalid, "an int64_param",
       parameter("output_dtype", [](P* p) { p->set_int64_param(1); })},
      {"a negative timeout", kInvalid, "must be >= 0 microseconds",
       parameter("timeout", [](P* p) { p->set_int64_param(-1); })},
      {"a timeout as text", kInvalid, "timeout", parameter("timeout", [](P* p) { p->set_string_param("1s"); })},
      {"a final response as text", kInvalid, "triton_enable_empty_final_response",
       parameter("triton_enable_empty_final_response", [](P* p) { p->set_string_param("yes"); })},
      {"an input's parameter", kInvalid, "inputs[0].parameters: \"a\"",
       [](R* r) { (*r->mutable_inputs(0)->mutable_parameters())["a"]; }},
      {"an input's parameter that is none, beside one that changes nothing", kInvalid, "inputs[0].parameters: \"axsi\"",
       [](R* r) {
         (*r->mutable_inputs(0)->mutable_parameters())["binary_data_size"].set_int64_param(24);
         (*r->mutable_inputs(0)->mutable_parameters())["axsi"].set_int64_param(1);
       }},
      {"an input in shared memory", kUnimplemented, "inputs[0].parameters: \"shared_memory_region\"",
       [](R* r) {
         // In any order: the one that the caller knows is named.
         for (const char* const size : {"shared_memory_byte_size", "shared_memory_offset"}) {
           (*r->mutable_inputs(0)->mutable_parameters())[size].set_int64_param(24);
         }
         (*r->mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
       }},
      {"another output", kInvalid, "outputs[0].name: is \"Z\"", [](R* r) { r->add_outputs()->set_name("Z"); }},
      {"an output twice", kInvalid, "outputs[1].name",
       [](R* r) {
         r->add_outputs()->set_name("Y");
         r->add_outputs()->set_name("Y");
       }},
      {"an output in shared memory", kUnimplemented, "outputs[0].parameters",
       [](R* r) {
         r->add_outputs()->set_name("Y");
         (*r->mutable_outputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
       }},
      {"an output's parameter", kInvalid, "outputs[0].parameters",
       [](R* r) {
         r->add_outputs()->set_name("Y");
         (*r->mutable_outputs(0)->mutable_parameters())["binary"].set_bool_param(true);
       }},
      {"the best 0", kInvalid, "parameters[\"top_k\"]: is 0; must be from 1 to 1024 (max_top_k)", best(0)},
      {"the best -5", kInvalid, "is -5", best(-5)},
      {"the best 1025", kInvalid, "is 1025", best(1025)},
      {"a truth as a number", kInvalid, "parameters[\"log_sum_exp\"]: has an int64_param; must have a bool_param",
       parameter("log_sum_exp", [](P* p) { p->set_int64_param(1); })},
      {"an output that was not asked for", kInvalid, "outputs[0].name",
       [](R* r) { r->add_outputs()->set_name("Y_entropy"); }},
      {"0 classes", kInvalid, "outputs[0].parameters[\"classification\"]: is 0", classes(0, "Y")},
      {"a million classes", kInvalid, "must be from 1 to 1024", classes(1 << 20, "Y")},
      {"classes of a further output", kInvalid, "whole tensors only", classes(3, "Y_entropy")},
      {"classes beside the best", kInvalid, "is set beside parameters[\"top_k\"]",
       [=](R* r) {
         best(3)(r);
         classes(3, "Y")(r);
       }},
      {"an input named as a further output", kInvalid, "must not end as the further outputs do",
       [=](R* r) {
         best(3)(r);
         r->mutable_inputs(0)->set_name("X_top_values");
       }},
      {"output too large", kInvalid, "output_dtype",
       [](R* r) {
         r->mutable_inputs(0)->set_datatype("FP16");
         r->mutable_inputs(0)->set_shape(0, 1 << 20);
         r->mutable_inputs(0)->set_shape(1, 9);
         *r->mutable_raw_input_contents(0) = std::string(18 << 20, '\0');
         (*r->mutable_parameters())["output_dtype"].set_string_param("FP64");
       }},
  };
}

TEST(OipForms, ABadRequestHasItsCodeItsWordsAndItsId) {
  for (const Bad& bad : BadRequests()) {
    SCOPED_TRACE(bad.name);
    ModelInferRequest request = Good();
    bad.spoil(&request);
    const InferRequest decoded = Decode(request.SerializeAsString());
    EXPECT_EQ(decoded.status.code(), bad.code) << decoded.status;
    EXPECT_THAT(std::string(decoded.status.message()), ::testing::HasSubstr(bad.says));
    EXPECT_LT(decoded.status.message().size(), 400u);
    EXPECT_EQ(decoded.id, "7");
  }
}

TEST(OipForms, AnIdThatIsNoUtf8IsNotEchoed) {
  EXPECT_EQ(Decode(Block(3, "seven") + Block(9, "\xff") + Tag(0, 0)).id, "seven");
  EXPECT_EQ(Decode(Block(3, "\xed\xa0\x80")).id, "");
}

// What is refused has cost no memory of its size.
TEST(OipForms, LongTextsAndManyInputsCostNoMemory) {
  const std::string megabyte(1 << 20, 'x');
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += Block(5, "");
  for (const std::string& bytes : {Block(1, megabyte), Block(3, megabyte), Block(4, Block(1, megabyte)),
                                   Block(5, Block(1, megabyte)), Block(6, Block(1, megabyte)), many}) {
    const SlicedMessage message(bytes);
    InferRequest request;
    const std::size_t before = HeapUseSoFar().bytes;
    DecodeInferRequest(message.slices(), WireLimits{}, &request);
    EXPECT_FALSE(request.status.ok());
    EXPECT_LT(HeapUseSoFar().bytes - before, 200'000u);
  }
}

// Its value, a colon, the largest index, and its length in front.
TEST(OipForms, AClassificationsTextIsAsLongAsItsTypesLongest) {
  using kernels::DataType;
  TensorSpec spec;
  const auto most = [&spec](kernels::Operation operation, DataType type, std::int64_t cols) {
    spec.operation = operation;
    spec.output_type = type;
    spec.cols = cols;
    return MostClassBytes(spec);
  };
  EXPECT_EQ(most(kernels::Operation::kSoftmax, DataType::kFloat64, 1000), 4u + std::strlen("1.000000:999"));
  for (const auto& [type, text] : {std::pair(DataType::kFloat16, "-65504.000000:0"),
                                   {DataType::kFloat32, "-3.4028234663852886e+38:0"},
                                   {DataType::kBFloat16, "-3.4028234663852886e+38:0"},
                                   {DataType::kFloat64, "-1.7976931348623157e+308:0"}}) {
    for (const std::int64_t cols : {0, 1, 10}) {
      EXPECT_EQ(most(kernels::Operation::kLogSoftmax, type, cols), 4 + std::strlen(text)) << text;
    }
    EXPECT_EQ(most(kernels::Operation::kLogSoftmax, type, 11), 5 + std::strlen(text)) << text;
  }
}

TEST(OipForms, TypedContentsInOnePieceAreLeftWhereTheyAre) {
  ModelInferRequest typed = Good();
  typed.clear_raw_input_contents();
  for (int i = 0; i < 6; ++i) typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(static_cast<float>(i));
  const InferRequest request = Decode(typed.SerializeAsString());
  ASSERT_TRUE(request.status.ok()) << request.status;
  EXPECT_EQ(request.tensors[0].gathered_pieces, 0u);
}

// Values that came one by one are copied from the message to where they are wanted, and nowhere else.
TEST(OipForms, TypedContentsInPiecesCostNoMemory) {
  constexpr int kValues = 1 << 20;
  std::string contents;
  for (int i = 0; i < kValues; ++i) {
    const auto value = static_cast<float>(i);
    const std::string bytes(reinterpret_cast<const char*>(&value), sizeof(value));
    contents += i % 3 == 0 ? Block(6, bytes) : Tag(6, 5) + bytes;
  }
  const std::string input = Block(1, "X") + Block(2, "FP32") + Packed(3, {kValues}) + Block(5, contents);
  const SlicedMessage message(Block(1, "softmax") + Block(5, input), {9, 40, 77'777});
  InferRequest request;
  const std::size_t before = HeapUseSoFar().bytes;
  DecodeInferRequest(message.slices(), WireLimits{}, &request);
  ASSERT_TRUE(request.status.ok()) << request.status;
  std::vector<float> values(kValues);
  CopyTypedContents(message.slices(), request.tensors[0], reinterpret_cast<std::byte*>(values.data()));
  EXPECT_LT(HeapUseSoFar().bytes - before, sizeof(float) * kValues + 100'000);
  EXPECT_EQ(request.tensors[0].gathered_pieces, static_cast<std::uint64_t>(kValues));
  for (int i = 0; i < kValues; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(i));
}

}  // namespace
}  // namespace softmax::testing
