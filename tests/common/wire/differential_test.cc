#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/wire/decode.h"
#include "softmax/v1/softmax.pb.h"
#include "tests/common/wire/contract_model.h"
#include "tests/common/wire/damage.h"
#include "tests/common/wire/native_comparison.h"
#include "tests/common/wire/same_verdict.h"
#include "tests/common/wire/sliced_message.h"
#include "tests/support/wire_builder.h"

// The decoder against the generated parser followed by contract_model.h, over random messages with
// random damage in random slices. Seeds are fixed: a failure repeats.
namespace softmax::testing {
namespace {

std::size_t SizeOf(int dtype) { return dtype == 1 ? 4 : dtype == 4 ? 8 : 2; }

std::int64_t AnyInteger(Random& random) { return static_cast<std::int64_t>(random() >> (random() % 64)); }

double AnyScale(Random& random) {
  constexpr double kScales[] = {0.0, -1.0, std::numeric_limits<double>::infinity(), 0.5, 1.0, 2.0, 0.125, 1e-9};
  return kScales[random() % 8];
}

void FillLengths(Random& random, std::int64_t rows, v1::SoftmaxRequest* request) {
  if (OneIn(random, 10)) ++rows;
  for (std::int64_t i = 0; i < rows && i < 100; ++i) {
    request->add_lengths(static_cast<std::uint32_t>(random() % (OneIn(random, 50) ? 1000 : 2)));
  }
}

void FillSummary(Random& random, std::int64_t rows, std::int64_t cols, v1::SoftmaxRequest* request) {
  v1::SummaryRequest* summary = request->mutable_summary();
  if (OneIn(random, 2)) summary->set_top_k(static_cast<std::uint32_t>(random() % (OneIn(random, 20) ? 50 : 4)));
  if (OneIn(random, 2)) summary->set_log_sum_exp(OneIn(random, 2));
  if (OneIn(random, 3)) summary->set_entropy(true);
  if (OneIn(random, 3)) summary->set_full(true);
  if (!OneIn(random, 3)) return;
  const std::int64_t count = rows * static_cast<std::int64_t>(random() % 3) + (OneIn(random, 15) ? 1 : 0);
  std::string* indices = summary->mutable_indices();
  for (std::int64_t i = 0; i < count && i < 100; ++i) {
    const auto limit = static_cast<std::uint64_t>(cols + (OneIn(random, 60) ? 3 : 1));
    const auto index = static_cast<std::int32_t>(random() % limit) - 1;
    indices->append(reinterpret_cast<const char*>(&index), 4);
  }
  if (OneIn(random, 30)) indices->push_back('x');
}

// Few tokens and offsets, so that places meet.
void FillPlace(Random& random, v1::Place* place) {
  place->set_region(std::string(OneIn(random, 40) ? 15 : 16, static_cast<char>('a' + random() % 2)));
  place->set_offset(OneIn(random, 60) ? ~0ull << (random() % 16) : random() % 8 * (OneIn(random, 30) ? 1 : 8));
}

void FillPlaces(Random& random, v1::SoftmaxRequest* request) {
  if (!OneIn(random, 3)) {
    FillPlace(random, request->mutable_input()->mutable_place());
    if (!OneIn(random, 20)) request->mutable_input()->clear_data();
  }
  if (!OneIn(random, 3)) FillPlace(random, request->mutable_output_place());
  if (request->has_summary() && !OneIn(random, 3)) FillPlace(random, request->mutable_summary_place());
}

// Valid in about half of the cases; otherwise one of its fields breaks a rule.
v1::SoftmaxRequest AnyRequest(Random& random) {
  v1::SoftmaxRequest request;
  if (!OneIn(random, 3)) request.set_id(random() >> (random() % 64));
  if (OneIn(random, 2)) request.set_operation(static_cast<v1::Operation>(random() % (kernels::kOperations.size() + 1)));
  if (OneIn(random, 40)) request.set_operation(static_cast<v1::Operation>(AnyInteger(random)));
  if (OneIn(random, 3)) request.set_scale(OneIn(random, 4) ? AnyScale(random) : 0.75);
  if (OneIn(random, 2)) request.set_output_dtype(static_cast<v1::DataType>(random() % 5));
  if (OneIn(random, 3)) request.set_timeout_us(static_cast<std::uint32_t>(AnyInteger(random)));
  if (OneIn(random, 60)) return request;

  v1::Tensor* input = request.mutable_input();
  const int dtype = 1 + static_cast<int>(random() % 4);
  input->set_dtype(static_cast<v1::DataType>(OneIn(random, 30) ? AnyInteger(random) : dtype));
  const int rank = 1 + static_cast<int>(random() % (OneIn(random, 20) ? 9 : 4));
  std::int64_t elements = 1;
  for (int i = 0; i < rank; ++i) {
    const auto dim = static_cast<std::int64_t>(random() % (OneIn(random, 15) ? 100 : 4)) + (OneIn(random, 8) ? 0 : 1);
    input->add_shape(OneIn(random, 80) ? AnyInteger(random) : dim);
    elements *= dim;
  }
  if (elements > 2000) elements = 2000;
  std::string data(static_cast<std::size_t>(elements) * SizeOf(dtype), '\0');
  for (char& c : data) c = static_cast<char>(random());
  if (OneIn(random, 30)) data.resize(data.size() + random() % 3);
  input->set_data(data);
  if (OneIn(random, 2)) {
    request.set_axis(static_cast<std::int32_t>(random() % (2 * rank + 1)) - rank - OneIn(random, 30));
  }
  const int axis = request.has_axis() ? (request.axis() + rank) % rank : rank - 1;
  if (OneIn(random, 3) && axis >= 0 && input->shape(axis) > 0) {
    FillLengths(random, elements / input->shape(axis), &request);
  }
  if (OneIn(random, 3) && axis >= 0 && input->shape(axis) > 0) {
    FillSummary(random, elements / input->shape(axis), input->shape(axis), &request);
  }
  if (OneIn(random, 4)) FillPlaces(random, &request);
  return request;
}

std::string AnyMessage(Random& random) {
  std::string bytes = AnyRequest(random).SerializeAsString();
  if (OneIn(random, 4)) {
    // Two requests in one message merge, field by field.
    v1::SoftmaxRequest half = AnyRequest(random);
    if (OneIn(random, 2)) half.mutable_input()->clear_shape();
    bytes += half.SerializeAsString();
  }
  if (OneIn(random, 4)) bytes += AnyField(random, 20);
  for (std::uint64_t count = random() % 4; count > 1; --count) Damage(random, 20, &bytes);
  return bytes;
}

TEST(WireDifferential, TheDecoderEqualsTheGeneratedParserAndTheContract) {
  Random random(20240601);
  const WireLimits limits = TightLimits();
  NativeTally tally;
  for (int round = 0; round < 300'000; ++round) {
    const std::string bytes = AnyMessage(random);
    const SlicedMessage message = SlicedMessage::Cut(bytes, random() % 6, random);
    DecodedRequest decoded;
    DecodeRequest(message.slices(), limits, &decoded);
    Compare(bytes, message.slices(), decoded, limits, &tally);
    ASSERT_FALSE(HasFailure()) << "round " << round << ": " << Hex(bytes);
  }
  // Each path must have been walked, or the test shows nothing.
  EXPECT_GT(tally.accepted, 40'000);
  EXPECT_GT(tally.refused_by_contract, 40'000);
  EXPECT_GT(tally.refused_by_parser, 40'000);
  EXPECT_GT(tally.with_lengths, 5'000);
  EXPECT_GT(tally.with_indices, 2'000);
  EXPECT_GT(tally.with_summary, 5'000);
  EXPECT_GT(tally.with_places, 5'000);
  RecordProperty("accepted", static_cast<int>(tally.accepted));
  RecordProperty("refused_by_contract", static_cast<int>(tally.refused_by_contract));
  RecordProperty("refused_by_parser", static_cast<int>(tally.refused_by_parser));
  RecordProperty("with_lengths", static_cast<int>(tally.with_lengths));
}

TEST(WireDifferential, EveryCutOfASmallMessageGivesTheSame) {
  ExpectEveryCutToGiveTheSame<DecodedRequest>(7, 1500, TightLimits(), AnyMessage, DecodeRequest);
}

TEST(WireDifferential, ABudgetChangesNoVerdict) {
  ExpectABudgetToChangeNoVerdict<DecodedRequest>(17, 40, TightLimits(), AnyMessage, DecodeRequest);
}

// Where the whole message parses, each request has what it has alone. Where it does not, either the
// stream ends or the damage is inside requests that have told their ids.
void CompareStream(const std::string& bytes, Slices slices, const WireLimits& limits, NativeTally* tally) {
  std::vector<DecodedRequest> decoded;
  const absl::Status status = DecodeStreamRequest(slices, limits, &decoded);
  v1::SoftmaxStreamRequest parsed;
  if (!parsed.ParseFromString(bytes)) {
    ++tally->refused_by_parser;
    bool refused = !status.ok();
    for (const DecodedRequest& request : decoded) {
      if (!SaysMalformed(request.status)) continue;
      refused = true;
      EXPECT_TRUE(request.has_id);
    }
    EXPECT_TRUE(refused);
    return;
  }
  if (parsed.requests_size() > static_cast<int>(limits.max_requests_per_stream_message)) {
    EXPECT_EQ(FieldOf(status), "requests");
    return;
  }
  if (decoded.empty() && LooksCompressed(bytes)) return;
  ++tally->accepted;
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(decoded.size(), static_cast<std::size_t>(parsed.requests_size()));
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    EXPECT_EQ(decoded[i].id, parsed.requests(i).id());
    const Verdict verdict = Judge(parsed.requests(i), limits);
    if (!decoded[i].status.ok()) {
      EXPECT_EQ(FieldOf(decoded[i].status), verdict.field) << decoded[i].status;
      continue;
    }
    ASSERT_EQ(verdict.field, "");
    ExpectEqualToModel(bytes, slices, decoded[i], parsed.requests(i), verdict);
  }
}

TEST(WireDifferential, AStreamsMessageEqualsTheGeneratedParser) {
  Random random(99);
  WireLimits limits = TightLimits();
  limits.max_requests_per_stream_message = 4;
  NativeTally tally;
  for (int round = 0; round < 60'000; ++round) {
    std::string bytes;
    for (std::uint64_t count = random() % 6; count > 0; --count) {
      if (OneIn(random, 8)) bytes += AnyField(random, 20);
      bytes += Block(1, OneIn(random, 3) ? AnyMessage(random) : AnyRequest(random).SerializeAsString());
    }
    if (OneIn(random, 4)) Damage(random, 20, &bytes);
    const SlicedMessage message = SlicedMessage::Cut(bytes, random() % 6, random);
    CompareStream(bytes, message.slices(), limits, &tally);
    ASSERT_FALSE(HasFailure()) << "round " << round << ": " << Hex(bytes);
  }
  EXPECT_GT(tally.accepted, 10'000);
  EXPECT_GT(tally.refused_by_parser, 10'000);
}

}  // namespace
}  // namespace softmax::testing
