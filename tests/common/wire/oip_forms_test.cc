#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/decode.h"
#include "common/wire/oip_decode.h"
#include "common/wire/oip_models.h"
#include "inference/inference.pb.h"
#include "tests/common/wire/counting_new.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

// Over a thousand hostile forms of ModelInferRequest: each type under each name, each spoilt in each way, and each cut
// off at each byte. Every one gets its code and words.
namespace softmax::testing {
namespace {

using inference::ModelInferRequest;

constexpr const char* kTypes[] = {"FP32", "FP16", "BF16", "FP64"};
constexpr std::size_t kSizes[] = {4, 2, 2, 8};

ModelInferRequest Good(const char* model, int type) {
  ModelInferRequest request;
  request.set_model_name(model);
  request.set_id("7");
  auto* const input = request.add_inputs();
  input->set_name("X");
  input->set_datatype(kTypes[type]);
  input->add_shape(2);
  input->add_shape(3);
  request.add_raw_input_contents(std::string(6 * kSizes[type], '\x3c'));
  return request;
}

InferRequest Decode(const std::string& bytes) {
  const SlicedMessage message(bytes, {3, 11});
  InferRequest request;
  DecodeInferRequest(message.slices(), WireLimits{}, &request);
  return request;
}

// What is put behind a good request, or is a change of it.
struct Form {
  absl::StatusCode code;
  std::function<std::string(ModelInferRequest)> bytes;
};

std::vector<Form> Forms() {
  using R = ModelInferRequest;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto changed = [](std::function<void(R*)> change) {
    return [change](R request) {
      change(&request);
      return request.SerializeAsString();
    };
  };
  const auto followed = [](std::string more) {
    return [more](R request) { return request.SerializeAsString() + more; };
  };
  const std::string contents(24, '\x3c');
  return {
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->set_datatype("fp32"); })},
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->set_datatype("BYTES"); })},
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->set_shape(0, -1); })},
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->set_shape(0, INT64_MAX); })},
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->set_shape(0, INT64_MIN); })},
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->clear_shape(); })},
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->set_name("Y"); })},
      {kInvalid, changed([](R* r) { r->set_id(std::string(1 << 20, 'i')); })},
      {kInvalid, changed([](R* r) { r->mutable_raw_input_contents(0)->pop_back(); })},
      {kInvalid, changed([](R* r) { r->mutable_raw_input_contents(0)->push_back(0); })},
      {kInvalid, changed([](R* r) { r->add_raw_input_contents(); })},
      {kInvalid, changed([](R* r) { r->clear_raw_input_contents(); })},
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->mutable_contents()->add_bytes_contents("x"); })},
      {kInvalid, changed([](R* r) { r->mutable_inputs(0)->mutable_contents()->add_fp64_contents(1); })},
      {kInvalid, changed([](R* r) { (*r->mutable_parameters())["axis"].set_double_param(0); })},
      {kInvalid, changed([](R* r) { (*r->mutable_parameters())["axis"].set_int64_param(-3); })},
      {kInvalid, changed([](R* r) { (*r->mutable_parameters())["scale"].set_double_param(-1); })},
      {kInvalid, changed([](R* r) { (*r->mutable_parameters())["scale"].set_string_param("1"); })},
      {kInvalid, changed([](R* r) { (*r->mutable_parameters())["output_dtype"].set_string_param(""); })},
      {kInvalid, changed([](R* r) { (*r->mutable_parameters())["timeout"].set_int64_param(-9); })},
      {kInvalid, changed([](R* r) { (*r->mutable_parameters())[std::string(70000, 'k')]; })},
      {kInvalid, changed([](R* r) { (*r->mutable_parameters())[""]; })},
      {kInvalid, changed([](R* r) { r->add_outputs(); })},
      {absl::StatusCode::kNotFound, changed([](R* r) { r->set_model_version("0"); })},
      {absl::StatusCode::kNotFound, changed([](R* r) { r->set_model_name("softmax "); })},
      {absl::StatusCode::kUnimplemented,
       changed([](R* r) { (*r->mutable_inputs(0)->mutable_parameters())["shared_memory_region"]; })},
      {kInvalid, followed(Block(1, "\xff"))},                                      // no UTF-8
      {kInvalid, followed(Block(3, "\xed\xa0\x80"))},                              // a surrogate
      {kInvalid, followed(Block(3, std::string(8192, 'a') + "\xc0"))},             // at the end of a long text
      {kInvalid, followed(Block(4, Block(1, "\x80")))},                            // in a parameter's name
      {kInvalid, followed(Block(5, Block(5, Tag(6, 2) + "\x03" + "abc")))},        // a packed float of three bytes
      {kInvalid, followed(Block(5, Block(5, Tag(7, 1) + "abc")))},                 // a double that is cut off
      {kInvalid, followed(Block(5, Block(3, std::string(10, '\xff') + "\x01")))},  // a dimension of 11 bytes
      {kInvalid, followed(Tag(7, 2) + Varint(1ull << 31, 5))},                     // 2 GiB of data
      {kInvalid, followed(Tag(7, 2) + "\x05" + "abc")},                            // more data than there are
      {kInvalid, followed(Tag(9, 4))},                                             // a group that was not begun
      {kInvalid, followed(Groups(9, 101))},                                        // too deep
      {kInvalid, followed(std::string(1, '\0'))},                                  // field 0
      {kInvalid, followed(Tag(9, 6))},                                             // a wire type that is none
      {kInvalid, followed(Block(5, Block(5, Block(2, "\xff"))))},                  // integers that are cut off
  };
}

TEST(OipForms, OverAThousandHostileOnesGetTheirCodeAndWords) {
  std::size_t forms = 0;
  for (const Form& form : Forms()) {
    for (const InferModel& model : InferModels()) {
      for (int type = 0; type < 4; ++type, ++forms) {
        const InferRequest request = Decode(form.bytes(Good(model.name.c_str(), type)));
        ASSERT_EQ(request.status.code(), form.code) << forms << ": " << request.status;
        ASSERT_THAT(std::string(request.status.message()), ::testing::HasSubstr(": ")) << forms;
        ASSERT_LE(request.status.message().size(), 400u) << forms;
        ASSERT_TRUE(request.tensors.empty());
      }
    }
  }
  EXPECT_GE(forms, 1000u);
}

TEST(OipForms, AMessageThatIsCutOffAnywhereIsRefused) {
  for (int type = 0; type < 4; ++type) {
    const std::string bytes = Good("softmax", type).SerializeAsString();
    ASSERT_TRUE(Decode(bytes).status.ok());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const absl::Status status = Decode(bytes.substr(0, size)).status;
      EXPECT_FALSE(status.ok()) << size;
      EXPECT_FALSE(status.message().empty()) << size;
    }
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
  ModelInferRequest typed = Good("softmax", 0);
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
