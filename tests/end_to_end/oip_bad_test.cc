// Bad requests of the Open Inference Protocol: each has its code and its words, alone and on a stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/end_to_end/oip_fixture.h"

namespace softmax::testing {
namespace {

using ::testing::HasSubstr;

class OipBad : public OipTest {};

// Bad requests, each with its code and words.
struct Bad {
  const char* name;
  grpc::StatusCode code;
  const char* says;
  std::function<void(ModelInferRequest*)> spoil;
};

std::vector<Bad> BadRequests() {
  using R = ModelInferRequest;
  const auto parameter = [](const char* key, auto set) {
    return [key, set](R* r) { set(&(*r->mutable_parameters())[key]); };
  };
  using P = inference::InferParameter;
  return {
      {"no model", grpc::NOT_FOUND, "model_name", [](R* r) { r->clear_model_name(); }},
      {"another model", grpc::NOT_FOUND, "\"resnet\"", [](R* r) { r->set_model_name("resnet"); }},
      {"a long model", grpc::INVALID_ARGUMENT, "model_name: reading ended",
       [](R* r) { r->set_model_name(std::string(5000, 'x')); }},
      {"another version", grpc::NOT_FOUND, "model_version", [](R* r) { r->set_model_version("2"); }},
      {"a version below 0", grpc::INVALID_ARGUMENT, "model_version: is \"-1\"",
       [](R* r) { r->set_model_version("-1"); }},
      {"a version that is no number", grpc::INVALID_ARGUMENT, "model_version: is \"latest\"",
       [](R* r) { r->set_model_version("latest"); }},
      {"a long version", grpc::INVALID_ARGUMENT, "model_version: reading ended",
       [](R* r) { r->set_model_version(std::string(5000, '1')); }},
      {"an id of 1 MiB", grpc::INVALID_ARGUMENT, "must have at most 4096",
       [](R* r) { r->set_id(std::string(1 << 20, 'i')); }},
      {"no input", grpc::INVALID_ARGUMENT, "has 0 tensors",
       [](R* r) {
         r->clear_inputs();
         r->clear_raw_input_contents();
       }},
      {"65 inputs", grpc::INVALID_ARGUMENT, "inputs: reading ended",
       [](R* r) {
         while (r->inputs_size() < 65) {
           *r->add_inputs() = r->inputs(0);
           r->add_raw_input_contents(r->raw_input_contents(0));
         }
       }},
      {"one name twice", grpc::INVALID_ARGUMENT, "inputs[1].name",
       [](R* r) {
         *r->add_inputs() = r->inputs(0);
         r->add_raw_input_contents(r->raw_input_contents(0));
       }},
      {"another name", grpc::INVALID_ARGUMENT, "inputs[0].name", [](R* r) { r->mutable_inputs(0)->set_name("A"); }},
      {"no name", grpc::INVALID_ARGUMENT, "inputs[0].name", [](R* r) { r->mutable_inputs(0)->clear_name(); }},
      {"a long name", grpc::INVALID_ARGUMENT, "inputs[0].name",
       [](R* r) { r->mutable_inputs(0)->set_name(std::string(65, 'X')); }},
      {"another datatype", grpc::INVALID_ARGUMENT, "inputs[0].datatype: is \"INT8\"",
       [](R* r) { r->mutable_inputs(0)->set_datatype("INT8"); }},
      {"a datatype in small letters", grpc::INVALID_ARGUMENT, "\"fp32\"",
       [](R* r) { r->mutable_inputs(0)->set_datatype("fp32"); }},
      {"no datatype", grpc::INVALID_ARGUMENT, "datatype", [](R* r) { r->mutable_inputs(0)->clear_datatype(); }},
      {"no shape", grpc::INVALID_ARGUMENT, "inputs[0].shape: has rank 0",
       [](R* r) { r->mutable_inputs(0)->clear_shape(); }},
      {"rank 9", grpc::INVALID_ARGUMENT, "inputs[0].shape: has rank 10",
       [](R* r) {
         for (int i = 0; i < 8; ++i) r->mutable_inputs(0)->add_shape(1);
       }},
      {"a negative dimension", grpc::INVALID_ARGUMENT, "dimension 0 is -1",
       [](R* r) { r->mutable_inputs(0)->set_shape(0, -1); }},
      {"a shape that overflows", grpc::INVALID_ARGUMENT, "product",
       [](R* r) { r->mutable_inputs(0)->set_shape(0, INT64_MAX / 2); }},
      {"data too short", grpc::INVALID_ARGUMENT, "raw_input_contents[0]: has 23 bytes; must be 24",
       [](R* r) { r->mutable_raw_input_contents(0)->resize(23); }},
      {"data too long", grpc::INVALID_ARGUMENT, "raw_input_contents[0]: has 25 bytes; must be 24",
       [](R* r) { r->mutable_raw_input_contents(0)->resize(25); }},
      {"no data", grpc::INVALID_ARGUMENT, "inputs[0].contents: has 0 bytes; must be 24",
       [](R* r) { r->clear_raw_input_contents(); }},
      {"two raw values for one input", grpc::INVALID_ARGUMENT, "raw_input_contents: has 2 values; must have 1",
       [](R* r) { r->add_raw_input_contents(""); }},
      {"raw and typed", grpc::INVALID_ARGUMENT, "inputs[0].contents",
       [](R* r) { r->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); }},
      {"typed of too few values", grpc::INVALID_ARGUMENT, "inputs[0].contents: has 4 bytes; must be 24",
       [](R* r) {
         r->clear_raw_input_contents();
         r->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
       }},
      {"typed of another type", grpc::INVALID_ARGUMENT, "must have only fp32_contents",
       [](R* r) {
         r->clear_raw_input_contents();
         for (int i = 0; i < 6; ++i) r->mutable_inputs(0)->mutable_contents()->add_int_contents(1);
       }},
      {"typed FP16", grpc::INVALID_ARGUMENT, "FP16 has no typed contents",
       [](R* r) {
         r->clear_raw_input_contents();
         r->mutable_inputs(0)->set_datatype("FP16");
         for (int i = 0; i < 6; ++i) r->mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
       }},
      {"an unknown parameter", grpc::INVALID_ARGUMENT, "\"temperature\"",
       parameter("temperature", [](P* p) { p->set_double_param(1); })},
      {"an axis that is none", grpc::INVALID_ARGUMENT, "axis: is 2",
       parameter("axis", [](P* p) { p->set_int64_param(2); })},
      {"an axis of 2^40", grpc::INVALID_ARGUMENT, "axis: is ",
       parameter("axis", [](P* p) { p->set_int64_param(1ll << 40); })},
      {"an axis as text", grpc::INVALID_ARGUMENT, "parameters[\"axis\"]: has a string_param",
       parameter("axis", [](P* p) { p->set_string_param("1"); })},
      {"an axis without a value", grpc::INVALID_ARGUMENT, "has no value", parameter("axis", [](P*) {})},
      {"a scale of 0", grpc::INVALID_ARGUMENT, "scale: is 0", parameter("scale", [](P* p) { p->set_double_param(0); })},
      {"a scale as a truth", grpc::INVALID_ARGUMENT, "bool_param",
       parameter("scale", [](P* p) { p->set_bool_param(true); })},
      {"another output_dtype", grpc::INVALID_ARGUMENT, "\"INT8\"",
       parameter("output_dtype", [](P* p) { p->set_string_param("INT8"); })},
      {"an output_dtype as a number", grpc::INVALID_ARGUMENT, "an int64_param",
       parameter("output_dtype", [](P* p) { p->set_int64_param(1); })},
      {"a negative timeout", grpc::INVALID_ARGUMENT, "must be >= 0 microseconds",
       parameter("timeout", [](P* p) { p->set_int64_param(-1); })},
      {"a timeout as text", grpc::INVALID_ARGUMENT, "timeout",
       parameter("timeout", [](P* p) { p->set_string_param("1s"); })},
      {"a final response as text", grpc::INVALID_ARGUMENT, "triton_enable_empty_final_response",
       parameter("triton_enable_empty_final_response", [](P* p) { p->set_string_param("yes"); })},
      {"an input's parameter", grpc::INVALID_ARGUMENT, "inputs[0].parameters: \"a\"",
       [](R* r) { (*r->mutable_inputs(0)->mutable_parameters())["a"]; }},
      {"an input's parameter that is none, beside one that changes nothing", grpc::INVALID_ARGUMENT,
       "inputs[0].parameters: \"axsi\"",
       [](R* r) {
         (*r->mutable_inputs(0)->mutable_parameters())["binary_data_size"].set_int64_param(24);
         (*r->mutable_inputs(0)->mutable_parameters())["axsi"].set_int64_param(1);
       }},
      {"an input in shared memory", grpc::UNIMPLEMENTED, "inputs[0].parameters: \"shared_memory_region\"",
       [](R* r) {
         // In any order: the one that the caller knows is named.
         for (const char* const size : {"shared_memory_byte_size", "shared_memory_offset"}) {
           (*r->mutable_inputs(0)->mutable_parameters())[size].set_int64_param(24);
         }
         (*r->mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
       }},
      {"another output", grpc::INVALID_ARGUMENT, "outputs[0].name: is \"Z\"",
       [](R* r) { r->add_outputs()->set_name("Z"); }},
      {"an output twice", grpc::INVALID_ARGUMENT, "outputs[1].name",
       [](R* r) {
         r->add_outputs()->set_name("Y");
         r->add_outputs()->set_name("Y");
       }},
      {"an output in shared memory", grpc::UNIMPLEMENTED, "outputs[0].parameters",
       [](R* r) {
         r->add_outputs()->set_name("Y");
         (*r->mutable_outputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
       }},
      {"an output's parameter", grpc::INVALID_ARGUMENT, "outputs[0].parameters",
       [](R* r) {
         r->add_outputs()->set_name("Y");
         (*r->mutable_outputs(0)->mutable_parameters())["binary"].set_bool_param(true);
       }},
      {"output too large", grpc::INVALID_ARGUMENT, "output_dtype",
       [](R* r) {
         r->mutable_inputs(0)->set_datatype("FP16");
         r->mutable_inputs(0)->set_shape(0, 1 << 20);
         r->mutable_inputs(0)->set_shape(1, 4);
         *r->mutable_raw_input_contents(0) = std::string(8 << 20, '\0');
         (*r->mutable_parameters())["output_dtype"].set_string_param("FP64");
       }},
  };
}

TEST_F(OipBad, ABadRequestGetsItsCodeAndItsWords) {
  for (const Bad& bad : BadRequests()) {
    SCOPED_TRACE(bad.name);
    ModelInferRequest request = RequestOf(MakeQuestion({2, 3}, 1), "bad");
    bad.spoil(&request);
    ModelInferResponse response;
    const grpc::Status status = Infer(request, &response);
    EXPECT_EQ(status.error_code(), bad.code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(bad.says));
    EXPECT_LT(status.error_message().size(), 400u);
  }
}

// The same between good ones on a stream: an answer for each, and the stream goes on.
TEST_F(OipBad, OnAStreamABadRequestHasItsIdAndSpoilsNoOther) {
  const auto context = Context();
  const auto stream = stub_->ModelStreamInfer(context.get());
  std::vector<std::pair<std::string, const Bad*>> expected;  // in the order of the requests
  const std::vector<Bad> all = BadRequests();
  const Question question = MakeQuestion({2, 3}, 1);
  int sent = 0;
  for (const Bad& bad : all) {
    ModelInferRequest request = RequestOf(question, "bad " + std::to_string(sent));
    bad.spoil(&request);
    const bool is_early = std::string_view(bad.says).find("model_") == 0;  // an id was still to come, perhaps
    expected.emplace_back(request.id().size() > 4096 ? "" : is_early ? "?" : request.id(), &bad);
    ASSERT_TRUE(stream->Write(request));
    expected.emplace_back("good " + std::to_string(sent), nullptr);
    ASSERT_TRUE(stream->Write(RequestOf(question, "good " + std::to_string(sent))));
    ++sent;
  }
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  std::size_t answers = 0;
  for (; stream->Read(&response); ++answers) {
    ASSERT_LT(answers, expected.size());
    const auto& [id, bad] = expected[answers];
    SCOPED_TRACE(bad == nullptr ? "good" : bad->name);
    if (id != "?") {
      EXPECT_EQ(response.infer_response().id(), id);
    }
    EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
    EXPECT_EQ(response.error_message().empty(), bad == nullptr) << response.error_message();
    if (bad == nullptr) {
      ExpectRight(question, response.infer_response());
    } else {
      EXPECT_THAT(response.error_message(), HasSubstr(bad->says));
    }
  }
  EXPECT_EQ(answers, expected.size());
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace softmax::testing
