#include "server/batching/batch.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using kernels::DataType;
using testing::TestMemory;
using testing::TestRequest;

constexpr std::size_t kSlab = 4096;

class BatchTest : public ::testing::Test {
 protected:
  BatchTest() : memory_(64 * kSlab), arena_(memory_.data(), 64 * kSlab, kSlab) {}

  void Open(DataType output = DataType::kFloat32) {
    limits_.bytes = 8 * kSlab;
    limits_.requests = 4;
    const Batch::Need capacity = Batch::CapacityOf(DataType::kFloat32, output, limits_);
    batch_.Open(DataType::kFloat32, output, SpanRef(&arena_, arena_.TryReserve(capacity.total())), capacity, now_);
  }

  TestMemory memory_;
  Arena arena_;
  BatchLimits limits_;
  Batch batch_;
  TimePoint now_ = SteadyClock::now();
};

TEST_F(BatchTest, RequestsOfOneWidthBecomeOneMatrix) {
  Open();
  TestRequest a(2, 8, 1), b(3, 8, 2), c(1, 4, 3);
  for (TestRequest* request : {&a, &b, &c}) batch_.Add(request, now_);
  ASSERT_EQ(batch_.segments().size(), 2u);
  EXPECT_EQ(batch_.segments()[0].outer, 5);
  EXPECT_EQ(batch_.segments()[0].cols, 8);
  EXPECT_EQ(batch_.segments()[1].cols, 4);
  EXPECT_EQ(batch_.rows(), 6u);
}

TEST_F(BatchTest, DifferentScaleOperationOrLengthsStayApart) {
  Open();
  TestRequest a(1, 4), b(1, 4), c(1, 4), d(1, 4);
  b.mutable_spec().scale = 2;
  c.mutable_spec().operation = kernels::Operation::kLogSoftmax;
  d.set_lengths({3});
  for (TestRequest* request : {&a, &b, &c, &d}) batch_.Add(request, now_);
  ASSERT_EQ(batch_.segments().size(), 4u);
  ASSERT_NE(batch_.segments()[3].lengths, nullptr);
  EXPECT_EQ(batch_.segments()[3].lengths[0], 3u);
}

TEST_F(BatchTest, ASummaryHasRoomForItselfAndNoTensor) {
  Open(DataType::kFloat64);
  TestRequest summary(2, 8, 1, DataType::kFloat64), both(2, 8, 2, DataType::kFloat64),
      whole(2, 8, 3, DataType::kFloat64);
  for (TestRequest* request : {&summary, &both}) {
    SummarySpec& spec = request->mutable_spec().summary;
    spec.top_k = 3;
    spec.log_sum_exp = spec.partial = true;
  }
  both.mutable_spec().summary.full = true;
  const std::uint64_t parts = 2 * 3 * 8 + 2 * 3 * 4 + 8 + 8;  // values, indices, two floats twice
  EXPECT_EQ(summary.spec().output_bytes(), parts);
  EXPECT_EQ(both.spec().output_bytes(), parts + 2 * 8 * 8);
  EXPECT_EQ(Batch::NeedOf(summary.spec()).output, 0u);
  EXPECT_EQ(Batch::NeedOf(both.spec()).output, 2u * 8 * 8);
  for (TestRequest* request : {&summary, &both, &whole}) batch_.Add(request, now_);
  batch_.Close(CloseReason::kIdle);
  ASSERT_EQ(batch_.summaries().size(), 2u);
  EXPECT_EQ(batch_.segments().size(), 2u);
  const auto at = [this](const void* place) { return static_cast<const std::byte*>(place) - batch_.span().address(); };
  const kernels::SummarySegment& first = batch_.summaries()[0];
  EXPECT_EQ(at(first.top_values), 64);  // behind its input
  EXPECT_EQ(at(first.top_indices), 64 + 48);
  EXPECT_EQ(at(first.log_sum_exp), 64 + 48 + 24);
  EXPECT_EQ(at(first.maximum), 64 + 48 + 24 + 8);
  EXPECT_EQ(first.values_at, nullptr);
  EXPECT_EQ(first.entropy, nullptr);
  EXPECT_EQ(at(batch_.summaries()[1].rows.input), 64 + 96);
  const BatchSample sample = batch_.Sample(now_);
  EXPECT_EQ(sample.answers[static_cast<std::size_t>(AnswerKind::kTensor)], 2u);
  EXPECT_EQ(sample.answers[static_cast<std::size_t>(AnswerKind::kTopK)], 2u);
  EXPECT_EQ(sample.saved_bytes, 2 * 8 * 8 - parts);
  batch_.Complete(absl::OkStatus(), now_);
  EXPECT_EQ(both.last.summary - summary.last.summary, 64 + 96);
}

TEST_F(BatchTest, EachPartOfASummaryStandsWhereItsLayoutSays) {
  Open();
  TestRequest request(2, 8);
  request.set_indices({7, 1, 0, 3});
  SummarySpec& spec = request.mutable_spec().summary;
  spec.top_k = 3;
  spec.log_sum_exp = spec.entropy = spec.partial = true;
  batch_.Add(&request, now_);
  const kernels::SummarySegment& summary = batch_.summaries().front();
  EXPECT_EQ(std::vector<std::int32_t>(summary.indices, summary.indices + 4), std::vector<std::int32_t>({7, 1, 0, 3}));
  const SummaryLayout layout = request.spec().summary_layout();
  std::map<const void*, int> parts;
  for (const auto& [part, place] : {std::pair<int, const void*>(SummaryLayout::kTopValues, summary.top_values),
                                    {SummaryLayout::kTopIndices, summary.top_indices},
                                    {SummaryLayout::kValuesAt, summary.values_at},
                                    {SummaryLayout::kLogSumExp, summary.log_sum_exp},
                                    {SummaryLayout::kMaximum, summary.maximum},
                                    {SummaryLayout::kEntropy, summary.entropy}}) {
    const auto* const begin = static_cast<const std::byte*>(summary.top_values) - layout.offset[0];
    EXPECT_EQ(place, begin + layout.offset[part]) << part;
    parts[place] = part;
  }
  EXPECT_EQ(parts.size(), static_cast<std::size_t>(SummaryLayout::kParts));
}

TEST_F(BatchTest, RowsThatDoNotFillSixteenBytesAreNotJoined) {
  Open();
  TestRequest a(1, 3, 1), b(1, 3, 2);
  batch_.Add(&a, now_);
  batch_.Add(&b, now_);
  ASSERT_EQ(batch_.segments().size(), 2u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch_.segments()[1].input) % Batch::kAlignment, 0u);
}

TEST_F(BatchTest, EqualSizesRunInPlaceAndWiderOutputsFollowTheInputs) {
  Open();
  TestRequest same(1, 4);
  batch_.Add(&same, now_);
  EXPECT_EQ(batch_.segments()[0].input, batch_.segments()[0].output);
  batch_.Close(CloseReason::kIdle);
  batch_.Complete(absl::OkStatus(), now_);

  Open(DataType::kFloat64);
  TestRequest a(2, 5, 1.5f, DataType::kFloat64), b(1, 7, 2.5f, DataType::kFloat64);
  batch_.Add(&a, now_);
  batch_.Add(&b, now_);
  batch_.Close(CloseReason::kIdle);
  testing::PuppetLane::Run(batch_);
  batch_.Complete(absl::OkStatus(), now_);
  for (TestRequest* request : {&a, &b}) {
    const auto* const out = reinterpret_cast<const double*>(request->output.data());
    for (std::uint64_t i = 0; i < request->spec().elements(); ++i) {
      EXPECT_EQ(out[i], 2.0 * request->value());
    }
  }
}

TEST_F(BatchTest, FitsUntilRequestsOrBytesAreUsedUp) {
  Open();
  TestRequest big(1, 2 * kSlab - 16), small(1, 8), one(1, 16);
  batch_.Add(&big, now_);
  EXPECT_TRUE(batch_.Fits(one.spec(), limits_));
  TestRequest too_big(1, 32);
  EXPECT_FALSE(batch_.Fits(too_big.spec(), limits_));
  std::vector<std::unique_ptr<TestRequest>> more;
  for (int i = 0; i < 3; ++i) {
    more.push_back(std::make_unique<TestRequest>(1, 1));
    ASSERT_TRUE(batch_.Fits(more.back()->spec(), limits_));
    batch_.Add(more.back().get(), now_);
  }
  EXPECT_FALSE(batch_.Fits(small.spec(), limits_));
}

TEST_F(BatchTest, OneThatIsOpenedAgainHasNothingOfItsLastRequests) {
  Open();
  TestRequest whole(2, 8), summary(2, 8);
  summary.mutable_spec().summary.top_k = 1;
  summary.mutable_spec().summary.partial = true;
  for (TestRequest* request : {&whole, &summary}) batch_.Add(request, now_);
  EXPECT_GT(batch_.Sample(now_).saved_bytes, 0u);
  batch_.Close(CloseReason::kIdle);
  batch_.Complete(absl::OkStatus(), now_);
  Open();
  EXPECT_EQ(batch_.requests() + batch_.rows() + batch_.bytes() + batch_.Sample(now_).saved_bytes, 0u);
  EXPECT_TRUE(batch_.segments().empty() && batch_.summaries().empty());
}

TEST_F(BatchTest, CloseGivesTheUnusedSlabsBackAndCompleteTheRest) {
  Open();
  EXPECT_EQ(arena_.slabs_used(), 8u);
  TestRequest request(1, 16);
  batch_.Add(&request, now_);
  batch_.Close(CloseReason::kIdle);
  EXPECT_EQ(arena_.slabs_used(), 1u);
  request.keep_span = true;
  batch_.Complete(absl::OkStatus(), now_);
  EXPECT_EQ(arena_.slabs_used(), 1u);  // the answer holds it
  request.kept.Reset();
  EXPECT_EQ(arena_.slabs_used(), 0u);
}

TEST_F(BatchTest, AllAreToldOfTheirCompletionBeforeTheFirstIsCompleted) {
  Open();
  TestRequest requests[] = {TestRequest(1, 4), TestRequest(1, 4), TestRequest(1, 4)};
  int expected = 0;
  for (TestRequest& request : requests) {
    request.on_expect = [&] { ++expected; };
    request.on_complete = [&] { EXPECT_EQ(expected, 3); };
    batch_.Add(&request, now_);
  }
  batch_.Close(CloseReason::kIdle);
  batch_.Complete(absl::OkStatus(), now_);
  for (const TestRequest& request : requests) EXPECT_EQ(request.completions, 1);
  EXPECT_EQ(expected, 3);
}

TEST_F(BatchTest, TimesAndCompanyAreTold) {
  Open();
  TestRequest a(2, 4), b(3, 4);
  const TimePoint placed = a.arrived() + std::chrono::microseconds(5);
  batch_.Add(&a, placed);
  batch_.Add(&b, b.arrived());
  batch_.Close(CloseReason::kIdle);
  batch_.set_launched(placed + std::chrono::microseconds(7));
  batch_.Complete(absl::OkStatus(), placed + std::chrono::microseconds(18));
  EXPECT_EQ(a.last.queue, std::chrono::microseconds(5));
  EXPECT_EQ(a.last.batch, std::chrono::microseconds(7));
  EXPECT_EQ(a.last.execution, std::chrono::microseconds(11));
  EXPECT_EQ(a.last.batch_rows, 5u);
  EXPECT_EQ(a.completions, 1);
}

TEST_F(BatchTest, AFailureReachesEveryRequest) {
  Open();
  TestRequest a(1, 4), b(1, 4);
  batch_.Add(&a, now_);
  batch_.Add(&b, now_);
  batch_.Close(CloseReason::kIdle);
  batch_.Complete(absl::InternalError("device"), now_);
  EXPECT_TRUE(absl::IsInternal(a.last.status));
  EXPECT_TRUE(absl::IsInternal(b.last.status));
  EXPECT_EQ(arena_.slabs_used(), 0u);
}

}  // namespace
}  // namespace softmax::server
