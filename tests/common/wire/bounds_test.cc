#include "common/wire/bounds.h"

#include <absl/strings/numbers.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/decode.h"
#include "common/wire/oip_decode.h"
#include "inference/inference.pb.h"
#include "tests/common/wire/native_comparison.h"
#include "tests/common/wire/oip_comparison.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

// What a message may have much of, and where reading ends that has too much of anything else. At each bound a message
// is what it is for the generated parser and the model.
namespace softmax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Times(std::uint64_t count, const std::string& piece) {
  std::string bytes;
  bytes.reserve(count * piece.size());
  for (; count > 0; --count) bytes += piece;
  return bytes;
}

// Where a message's reading ended, or -1.
long EndedAt(const absl::Status& status) {
  constexpr absl::string_view kWords = "reading ended at byte ";
  const std::size_t at = status.message().find(kWords);
  long byte = -1;
  if (at == absl::string_view::npos) return byte;
  const absl::string_view rest = status.message().substr(at + kWords.size());
  return absl::SimpleAtoi(rest.substr(0, rest.find(':')), &byte) ? byte : -1;
}

DecodedRequest Decode(const std::string& bytes, const WireLimits& limits = {}) {
  const SlicedMessage message(bytes);
  DecodedRequest decoded;
  DecodeRequest(message.slices(), limits, &decoded);
  return decoded;
}

InferRequest DecodeInfer(const std::string& bytes, const WireLimits& limits = {}) {
  const SlicedMessage message(bytes);
  InferRequest decoded;
  DecodeInferRequest(message.slices(), limits, &decoded);
  return decoded;
}

// An id, an input, and in that three fields.
constexpr std::uint64_t kSmallFields = 5;
std::string Small() { return Scalar(1, 7) + Input(Tensor(1, {2, 3}, 24)); }

struct Crowd {
  const char* field;        // that the refusal names
  std::string piece;        // is put behind a good message
  std::uint64_t fields;     // in a piece
  bool is_visible = false;  // to the model
};

std::vector<Crowd> Crowds() {
  return {{"request", Scalar(40, 1), 1, true},
          {"request", Block(41, "some bytes"), 1, true},
          {"request", Groups(42, 2), 4, true},
          {"request", Input(Scalar(50, 1)), 2},
          {"request", Input(""), 1},
          {"request", Scalar(2, 1), 1},
          {"request", Block(8, Scalar(1, 1)), 2},
          {"request", Lengths({}), 1}};
}

TEST(WireBounds, ARequestHasSoManyFieldsOrLess) {
  for (const Crowd& crowd : Crowds()) {
    SCOPED_TRACE(Hex(crowd.piece));
    const std::uint64_t most = (kMaxFields - kSmallFields) / crowd.fields;
    const std::string full = Small() + Times(most, crowd.piece);
    EXPECT_TRUE(Decode(full).status.ok()) << Decode(full).status;
    const DecodedRequest refused = Decode(full + crowd.piece);
    EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status.message()), StartsWith(std::string(crowd.field) + ": reading ended"));
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("has more than 1000 fields"));
    EXPECT_THAT(std::string(refused.status.message()), HasSubstr("must have at most 1000"));
    EXPECT_TRUE(refused.has_id);
    EXPECT_EQ(refused.id, 7u);
    // However much follows, it is not looked at.
    EXPECT_EQ(EndedAt(Decode(Small() + Times(1'000'000, crowd.piece)).status), EndedAt(refused.status));
    if (!crowd.is_visible) continue;
    NativeTally tally;
    for (const std::string& bytes : {full, full + crowd.piece}) {
      const SlicedMessage message(bytes);
      Compare(bytes, message.slices(), Decode(bytes, TightLimits()), TightLimits(), &tally);
    }
    EXPECT_EQ(tally.accepted, 1);
    EXPECT_EQ(tally.refused_by_contract, 1);
  }
}

// Rows' lengths and a shape may come one by one.
TEST(WireBounds, LoneValuesAreNotCounted) {
  const std::string many = Scalar(1, 7) + Input(Tensor(1, {5000, 1}, 20'000)) + Times(5000, Scalar(6, 1));
  const DecodedRequest request = Decode(many);
  ASSERT_TRUE(request.status.ok()) << request.status;
  EXPECT_EQ(request.lengths, std::vector<std::uint32_t>(5000, 1));
}

TEST(WireBounds, AShapeHasSoManyDimensionsOrLess) {
  const std::vector<std::int64_t> full(kMaxDimensions, 1);
  EXPECT_THAT(std::string(Decode(Input(Shape(full))).status.message()), StartsWith("input.dtype"));
  for (const std::string& more : {Shape({1}), Scalar(2, 1), Shape(std::vector<std::int64_t>(100'000, 1))}) {
    const absl::Status status = Decode(Input(Tensor(1, full, 4) + more)).status;
    EXPECT_THAT(std::string(status.message()), StartsWith("input.shape: reading ended"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("more than 1000 dimensions in one shape"));
    EXPECT_LT(EndedAt(status), 1100);
  }
  NativeTally tally;
  for (const std::string& bytes : {Input(Shape(full)), Input(Shape(full) + Shape({1}))}) {
    const SlicedMessage message(bytes);
    Compare(bytes, message.slices(), Decode(bytes, TightLimits()), TightLimits(), &tally);
  }
  EXPECT_EQ(tally.refused_by_contract, 2);
}

TEST(WireBounds, AStreamsMessageHasSoManyFieldsBesideItsRequests) {
  const std::string good = Block(1, Small());
  std::vector<DecodedRequest> requests;
  const auto decode = [&](const std::string& bytes) {
    return DecodeStreamRequest(SlicedMessage(bytes).slices(), {}, &requests);
  };
  EXPECT_TRUE(decode(good + Times(kMaxFields, Scalar(9, 1))).ok());
  EXPECT_EQ(requests.size(), 1u);
  const absl::Status status = decode(good + Times(100'000, Scalar(9, 1)));
  EXPECT_THAT(std::string(status.message()), StartsWith("requests: reading ended"));
  EXPECT_LT(EndedAt(status), 3000);
  // Of its requests each has its own.
  const std::string full = Block(1, Small() + Times(kMaxFields - kSmallFields, Scalar(40, 1)));
  ASSERT_TRUE(decode(full + full + Block(1, Small() + Times(kMaxFields, Scalar(40, 1)))).ok());
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_TRUE(requests[1].status.ok());
  EXPECT_THAT(std::string(requests[2].status.message()), StartsWith("request: reading ended"));
}

std::string SmallInfer(const std::string& in_input = "", const std::string& in_output = "") {
  return Block(1, "softmax") + Block(3, "7") +
         Block(5, Block(1, "X") + Block(2, "FP32") + Packed(3, {1, 1}) + in_input) +
         Block(6, Block(1, "Y") + in_output) + Block(7, std::string(4, '\0'));
}

void ExpectEndOf(const std::string& bytes, const std::string& begin, const std::string& words, long before) {
  const InferRequest refused = DecodeInfer(bytes);
  const std::string text(refused.status.message());
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(text, StartsWith(begin + ": reading ended"));
  EXPECT_THAT(text, HasSubstr(words));
  EXPECT_LT(EndedAt(refused.status), before) << text;
  EXPECT_TRUE(refused.tensors.empty());
}

void ExpectAsTheModel(const std::string& bytes, bool accepted) {
  const SlicedMessage message(bytes);
  OipTally tally;
  Compare(bytes, message.slices(), DecodeInfer(bytes, TightOipLimits()), &tally);
  EXPECT_EQ(tally.accepted, accepted);
  EXPECT_EQ(tally.refused_by_rules, !accepted);
}

TEST(OipBounds, ParametersOfAllPlacesTogether) {
  const std::string words = "more than 1000 entries of parameters";
  const std::string priority = Block(4, Block(1, "priority") + Block(2, Scalar(2, 1)));
  ASSERT_TRUE(DecodeInfer(SmallInfer() + Times(1000, priority)).status.ok());
  ExpectEndOf(SmallInfer() + Times(100'000, priority), "parameters", words, 20'000);
  ExpectEndOf(SmallInfer() + Times(100'000, Block(4, "")), "parameters", words, 20'000);
  ExpectEndOf(SmallInfer(Times(100'000, Block(4, ""))), "inputs", words, 20'000);
  ExpectEndOf(SmallInfer("", Times(100'000, Block(2, ""))), "outputs", words, 20'000);
  inference::ModelInferRequest many;
  ASSERT_TRUE(many.ParseFromString(SmallInfer()));
  for (int i = 0; i < 1000; ++i) (*many.mutable_parameters())["sequence_" + std::to_string(i)].set_int64_param(i);
  ExpectAsTheModel(many.SerializeAsString(), true);
  (*many.mutable_parameters())["priority"];
  ExpectAsTheModel(many.SerializeAsString(), false);
}

TEST(OipBounds, InputsOutputsAndRawContents) {
  inference::ModelInferRequest full;
  full.set_model_name("softmax");
  for (int i = 0; i < 64; ++i) {
    auto* const input = full.add_inputs();
    input->set_name("X" + std::to_string(i));
    input->set_datatype("FP32");
    input->add_shape(1);
    full.add_raw_input_contents(std::string(4, '\0'));
    full.add_outputs()->set_name("Y" + std::to_string(i));
  }
  const std::string bytes = full.SerializeAsString();
  ASSERT_TRUE(DecodeInfer(bytes).status.ok());
  ExpectAsTheModel(bytes, true);
  const std::string words = "more than 64 elements; must have at most 64";
  const struct {
    const char* name;
    int number;
  } kFields[] = {{"inputs", 5}, {"outputs", 6}, {"raw_input_contents", 7}};
  for (const auto& field : kFields) {
    const auto more = Block(static_cast<std::uint32_t>(field.number), "");
    ExpectEndOf(bytes + Times(100'000, more), field.name, words, static_cast<long>(bytes.size()) + 9);
    ExpectAsTheModel(bytes + more, false);
  }
}

TEST(OipBounds, Texts) {
  const std::string words = "more than 4096 bytes in one string";
  const std::string most(4096, 'x');
  EXPECT_TRUE(DecodeInfer(SmallInfer() + Block(3, most)).status.ok());
  ExpectAsTheModel(SmallInfer() + Block(3, most), true);
  ExpectEndOf(SmallInfer() + Block(3, most + "x"), "id", words, 100);
  ExpectAsTheModel(SmallInfer() + Block(3, most + "x"), false);
  const std::string megabyte(1 << 20, 'x');
  ExpectEndOf(Block(1, megabyte), "model_name", words, 9);
  ExpectEndOf(Block(2, megabyte), "model_version", words, 9);
  ExpectEndOf(Block(4, Block(1, megabyte)), "parameters", words, 12);
  ExpectEndOf(SmallInfer(Block(2, megabyte)), "inputs", words, 60);
}

TEST(OipBounds, FieldsAndDimensions) {
  const std::string words = "more than 8000 fields";
  ASSERT_TRUE(DecodeInfer(SmallInfer() + Times(7900, Scalar(40, 1))).status.ok());
  ExpectAsTheModel(SmallInfer() + Times(7900, Scalar(40, 1)), true);
  ExpectAsTheModel(SmallInfer() + Times(8000, Scalar(40, 1)), false);
  ExpectEndOf(SmallInfer() + Times(100'000, Scalar(40, 1)), "message", words, 25'000);
  ExpectEndOf(SmallInfer() + Times(100'000, Groups(40, 1)), "message", words, 40'000);
  ExpectEndOf(SmallInfer() + Times(100'000, Block(3, "")), "message", words, 25'000);
  ExpectEndOf(SmallInfer(Times(100'000, Scalar(40, 1))), "message", words, 25'000);
  ExpectEndOf(SmallInfer(Times(100'000, Block(5, ""))), "message", words, 25'000);
  ExpectEndOf(SmallInfer(Times(100'000, Block(5, Block(6, "")))), "message", words, 25'000);
  const std::vector<std::int64_t> many(100'000, 1);
  ExpectEndOf(SmallInfer(Packed(3, many)), "inputs", "more than 1000 dimensions in one shape", 1100);
  ExpectAsTheModel(SmallInfer(Packed(3, many)), false);
}

// Work that is honest, but long: nothing is decided, until it is done with a larger budget.
TEST(WireBudget, LongWorkIsLeftUndecided) {
  WireLimits few;
  few.max_steps = 10'000;
  const std::vector<std::int64_t> lengths(20'000, 1);
  const std::string begin = Scalar(1, 7) + Input(Tensor(1, {20'000, 1}, 80'000));
  const std::string indices = Block(8, Block(2, std::string(200'000, '\0')));
  const std::string long_work[] = {begin + Lengths(lengths), begin + Times(20'000, Scalar(6, 1)),
                                   Scalar(1, 7) + Input(Tensor(1, {1, 1}, 4)) + indices};
  for (const std::string& bytes : long_work) {
    const DecodedRequest undecided = Decode(bytes, few);
    EXPECT_TRUE(undecided.beyond_budget);
    EXPECT_EQ(undecided.status.code(), absl::StatusCode::kInternal);
    EXPECT_FALSE(undecided.has_id);
    const DecodedRequest decided = Decode(bytes);
    EXPECT_FALSE(decided.beyond_budget);
    EXPECT_TRUE(decided.status.ok()) << decided.status;
  }
  // A large tensor is none.
  few.max_steps = 10;
  EXPECT_TRUE(Decode(Scalar(1, 7) + Input(Tensor(1, {1 << 20}, 4 << 20)), few).status.ok());
}

TEST(Budget, OfAStreamsMessageIsForEachRequest) {
  WireLimits few;
  few.max_steps = 10'000;
  const auto element = [](std::int64_t rows, const std::string& end) {
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(rows), 1);
    return Block(
        1, Scalar(1, 7) + Input(Tensor(1, {rows, 1}, static_cast<std::size_t>(rows) * 4)) + Lengths(lengths) + end);
  };
  std::vector<DecodedRequest> requests;
  bool beyond = true;
  const std::string many = Times(12, element(900, ""));
  EXPECT_TRUE(DecodeStreamRequest(SlicedMessage(many).slices(), few, &requests, &beyond).ok());
  EXPECT_FALSE(beyond);
  EXPECT_EQ(requests.size(), 12u);
  // What is malformed costs as much.
  for (const char* end : {"", "\x0f"}) {
    const std::string message = element(1, "") + element(20'000, end) + element(1, "");
    EXPECT_FALSE(DecodeStreamRequest(SlicedMessage(message).slices(), few, &requests, &beyond).ok());
    EXPECT_TRUE(beyond);
    EXPECT_TRUE(requests.empty());
    EXPECT_TRUE(DecodeStreamRequest(SlicedMessage(message).slices(), {}, &requests, &beyond).ok());
    EXPECT_FALSE(beyond);
    EXPECT_EQ(requests.size(), 3u);
  }
}

// A request that is beyond the budget is read again where there is time, and those behind it after it.
TEST(Budget, OfAStreamsRequestLeavesItTheNext) {
  WireLimits few;
  few.max_steps = 100;
  const std::string small = Block(1, Scalar(1, 7) + Input(Tensor(1, {1}, 4)));
  const std::string large =
      Block(1, Scalar(1, 8) + Input(Tensor(1, {200, 1}, 800)) + Lengths(std::vector<std::int64_t>(200, 1)));
  const SlicedMessage message(small + large + small);
  StreamRequestReader reader;
  DecodedRequest request;
  ASSERT_TRUE(reader.Begin(message.slices(), few).ok());
  EXPECT_EQ(reader.left(), 3u);
  ASSERT_TRUE(reader.Next(few, &request).ok());
  EXPECT_EQ(request.id, 7u);
  EXPECT_EQ(request.encoded_bytes, small.size() - 2);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(reader.Next(few, &request).ok());
    EXPECT_TRUE(request.beyond_budget);
    EXPECT_EQ(reader.left(), 2u);
  }
  ASSERT_TRUE(reader.Next({}, &request).ok());
  EXPECT_EQ(request.id, 8u);
  EXPECT_EQ(request.lengths.size(), 200u);
  ASSERT_TRUE(reader.Next(few, &request).ok());
  EXPECT_EQ(request.id, 7u);
  EXPECT_EQ(reader.left(), 0u);
}

TEST(OipBudget, LongWorkIsLeftUndecided) {
  WireLimits few;
  few.max_steps = 10'000;
  const std::string front = Block(1, "softmax") + Block(3, "7");
  const auto typed = [&](const std::string& contents) {
    return front + Block(5, Block(1, "X") + Block(2, "FP32") + Packed(3, {20'000}) + Block(5, contents));
  };
  const std::string lone = typed(Times(20'000, Tag(6, 5) + std::string(4, '\0')));
  const std::string pieces = typed(Times(20'000, Block(6, std::string(4, '\0'))));
  for (const std::string& bytes : {lone, pieces}) {
    const InferRequest undecided = DecodeInfer(bytes, few);
    EXPECT_TRUE(undecided.beyond_budget);
    EXPECT_EQ(undecided.status.code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(undecided.tensors.empty());
    const InferRequest decided = DecodeInfer(bytes);
    EXPECT_FALSE(decided.beyond_budget);
    EXPECT_TRUE(decided.status.ok()) << decided.status;
  }
  // Integers of another type are walked, too; values that lie together are not.
  EXPECT_TRUE(DecodeInfer(typed(Packed(2, std::vector<std::int64_t>(20'000, 1))), few).beyond_budget);
  EXPECT_TRUE(DecodeInfer(typed(Block(6, std::string(80'000, '\0'))), few).status.ok());
}

}  // namespace
}  // namespace softmax::testing
