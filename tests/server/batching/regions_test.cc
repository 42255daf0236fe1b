// Requests whose tensors lie in regions: in batches with others, in batches of their own, and what they hold.
#include <gtest/gtest.h>

#include "server/batching/backlog.h"
#include "server/batching/batcher.h"
#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using kernels::DataType;
using testing::CountingRecorder;
using testing::MakeRegion;
using testing::PuppetLane;
using testing::TestMemory;
using testing::TestRequest;

constexpr std::size_t kSlab = 4096;
constexpr std::int64_t kFloats = 256;  // of a row
constexpr std::uint64_t kRow = kFloats * sizeof(float);

class RegionsTest : public ::testing::Test {
 protected:
  RegionsTest()
      : memory_(16 * kSlab),
        arena_(memory_.data(), 16 * kSlab, kSlab),
        backlog_({.threads = 0, .patience = Nanoseconds(0)}, arena_),
        batcher_({.batch = {.bytes = 2 * kSlab, .requests = 8}}, arena_, backlog_, lane_, recorder_, [] {}) {}

  // One row of a region full of 3.
  std::unique_ptr<TestRequest> InRegion(const TestRequest::Offsets& at, DataType output = DataType::kFloat32) {
    auto request = std::make_unique<TestRequest>(1, kFloats, 0, output);
    request->PutInto(region_, at);
    return request;
  }
  void Submit(TestRequest& request) { batcher_.Submit(&request, SteadyClock::now()); }
  void Run() {
    do {
      batcher_.Flush(SteadyClock::now());
      while (!lane_.running.empty()) lane_.FinishOne();
    } while (batcher_.Poll());
  }
  static float At(const std::shared_ptr<const Region>& region, std::uint64_t offset) {
    return *reinterpret_cast<const float*>(region->memory() + offset);
  }

  TestMemory memory_;
  Arena arena_;
  Backlog backlog_;
  PuppetLane lane_;
  CountingRecorder recorder_;
  Batcher batcher_;
  std::shared_ptr<const Region> region_ = MakeRegion(64 << 10, 3);
};

TEST_F(RegionsTest, RequestsOfBothKindsShareABatch) {
  const auto placed = InRegion({.input = 0, .output = kRow});
  const auto copied_out = InRegion({.input = 4 * kRow});
  TestRequest sent(1, kFloats, 5);
  TestRequest copied_in(1, kFloats, 7);
  copied_in.PutInto(region_, {.output = 8 * kRow});
  for (TestRequest* request : {placed.get(), copied_out.get(), &sent, &copied_in}) Submit(*request);
  Run();
  ASSERT_EQ(recorder_.batches.size(), 1u);
  EXPECT_EQ(recorder_.batches[0].requests, 4u);
  EXPECT_EQ(recorder_.batches[0].input_bytes, 4 * kRow);
  EXPECT_EQ(recorder_.batches[0].output_bytes, 4 * kRow);
  EXPECT_EQ(placed->last.output, nullptr);
  EXPECT_EQ(At(region_, kRow), 6);
  EXPECT_EQ(At(region_, 0), 3);
  EXPECT_EQ(copied_out->floats()[kFloats - 1], 6);
  EXPECT_EQ(At(region_, 4 * kRow), 3);
  EXPECT_EQ(sent.floats()[0], 10);
  EXPECT_EQ(copied_in.last.output, nullptr);
  EXPECT_EQ(At(region_, 8 * kRow), 14);
  EXPECT_EQ(placed->copies + copied_out->copies, 0);
  EXPECT_EQ(placed->copied_bytes(), 0u);
  EXPECT_EQ(copied_in.copied_bytes(), kRow);
}

TEST_F(RegionsTest, OutputsThatFollowTheInputsStandBesideThoseOfRegions) {
  const auto placed = InRegion({.input = 0, .output = 2 * kRow}, DataType::kFloat64);
  const auto copied_out = InRegion({.input = 0}, DataType::kFloat64);
  TestRequest sent(1, kFloats, 5, DataType::kFloat64);
  for (TestRequest* request : {placed.get(), copied_out.get(), &sent}) Submit(*request);
  Run();
  ASSERT_EQ(recorder_.batches.size(), 1u);
  EXPECT_EQ(*reinterpret_cast<const double*>(region_->memory() + 2 * kRow), 6.0);
  EXPECT_EQ(reinterpret_cast<const double*>(copied_out->output.data())[0], 6.0);
  EXPECT_EQ(reinterpret_cast<const double*>(sent.output.data())[kFloats - 1], 10.0);
}

TEST_F(RegionsTest, AnAnswerMayBeInItsInputsPlace) {
  const auto request = InRegion({.input = kRow, .output = kRow});
  Submit(*request);
  Run();
  EXPECT_EQ(At(region_, kRow), 6);
  EXPECT_EQ(At(region_, 2 * kRow), 3);
  EXPECT_EQ(arena_.slabs_used(), 0u);
}

TEST_F(RegionsTest, ASummaryIsWrittenToItsPlace) {
  const auto request = InRegion({.input = 0, .summary = 4 * kRow});
  SummarySpec& summary = request->mutable_spec().summary;
  summary.top_k = 3;
  summary.log_sum_exp = summary.partial = true;
  EXPECT_EQ(Batch::NeedOf(request->spec()).total(), 0u);
  Submit(*request);
  batcher_.Flush(SteadyClock::now());
  ASSERT_EQ(lane_.running.size(), 1u);
  const kernels::SummarySegment& segment = lane_.running.front()->summaries().front();
  EXPECT_EQ(segment.rows.input, region_->memory());
  EXPECT_EQ(segment.top_values, region_->memory() + 4 * kRow);
  EXPECT_EQ(static_cast<void*>(segment.top_indices), region_->memory() + 4 * kRow + 16);
  EXPECT_EQ(segment.log_sum_exp, region_->memory() + 4 * kRow + 32);
  Run();
  EXPECT_EQ(request->last.summary, nullptr);
}

TEST_F(RegionsTest, WithoutRoomInTheArenaARequestOfRegionsRunsAllTheSame) {
  const Span all = arena_.TryReserve(16 * kSlab);
  const auto first = InRegion({.input = 0, .output = kRow});
  const auto second = InRegion({.input = 0, .output = 2 * kRow});
  const auto large = std::make_unique<TestRequest>(16, kFloats);
  large->PutInto(region_, {.input = 4 * kRow, .output = 32 * kRow});
  for (const auto* request : {&first, &second, &large}) Submit(**request);
  Run();
  for (const auto* request : {&first, &second, &large}) EXPECT_TRUE((*request)->last.ran);
  EXPECT_EQ(At(region_, 47 * kRow), 6);
  EXPECT_EQ(backlog_.queued_requests(), 0u);
  arena_.Release(all);
}

TEST_F(RegionsTest, WhoNeedsNoMemoryWaitsForNone) {
  const Span all = arena_.TryReserve(16 * kSlab);
  TestRequest waits(16, kFloats, 1);
  Submit(waits);
  Backlog::Taken taken;
  TimePoint next;
  EXPECT_FALSE(backlog_.TryTake(&taken, &next));  // from now on it is its turn
  ASSERT_TRUE(backlog_.MustQueue(/*small=*/false, SteadyClock::now()));
  const auto large = std::make_unique<TestRequest>(16, kFloats);
  large->PutInto(region_, {.input = 0, .output = 32 * kRow});
  Submit(*large);
  Run();
  EXPECT_TRUE(large->last.ran);
  EXPECT_EQ(backlog_.queued_requests(), 1u);
  arena_.Release(all);
  ASSERT_TRUE(backlog_.TryTake(&taken, &next));
  backlog_.CarryOut(std::move(taken));
  batcher_.Poll();
  Run();
  EXPECT_TRUE(waits.last.ran);
}

TEST_F(RegionsTest, WhatIsLargerThanABatchGoesAloneAndNoThreadCopiesIt) {
  const auto large = std::make_unique<TestRequest>(9, kFloats);
  large->PutInto(region_, {.input = 0, .output = 16 * kRow});
  const auto small = InRegion({.input = 0, .output = 48 * kRow});
  Submit(*large);
  EXPECT_EQ(backlog_.queued_requests(), 0u);
  Submit(*small);
  Run();
  ASSERT_EQ(recorder_.batches.size(), 2u);
  EXPECT_EQ(recorder_.batches[0].requests, 1u);
  EXPECT_EQ(At(region_, 24 * kRow), 6);
}

TEST_F(RegionsTest, ABatchIsBoundedByWhatItsKernelMoves) {
  std::vector<std::unique_ptr<TestRequest>> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    requests.push_back(std::make_unique<TestRequest>(3, kFloats));
    requests.back()->PutInto(region_, {.input = 0, .output = 3 * i * kRow + 8 * kRow});
    Submit(*requests.back());
  }
  Run();
  ASSERT_EQ(recorder_.batches.size(), 3u);
  for (const BatchSample& batch : recorder_.batches) EXPECT_EQ(batch.requests, 2u);
}

TEST_F(RegionsTest, EachDevicesRegionsHaveBatchesOfTheirOwn) {
  const auto first = MakeRegion(1024, 1, 0), second = MakeRegion(1024, 2, 1);
  std::vector<std::unique_ptr<TestRequest>> requests;
  for (const auto& region : {region_, first, second, first, region_}) {
    requests.push_back(std::make_unique<TestRequest>(1, 8));
    requests.back()->PutInto(region, {.input = 64 * requests.size(), .output = 64 * requests.size()});
    Submit(*requests.back());
  }
  batcher_.Flush(SteadyClock::now());
  std::vector<int> devices;
  for (bool more = true; more;) {
    for (; !lane_.running.empty(); lane_.FinishOne()) devices.push_back(lane_.running.front()->device());
    more = batcher_.Poll();
    batcher_.Flush(SteadyClock::now());
  }
  EXPECT_EQ(devices, (std::vector<int>{Region::kHost, 0, 1}));
}

TEST_F(RegionsTest, MemoryIsHeldUntilTheAnswerAndNoLonger) {
  const auto freed = std::make_shared<bool>(false);
  auto region = MakeRegion(1024, 1, Region::kHost, freed);
  TestRequest request(1, 8);
  request.PutInto(region, {.input = 0, .output = 64});
  region.reset();
  Submit(request);
  batcher_.Flush(SteadyClock::now());
  request.left = true;  // its caller: the batch runs on
  EXPECT_FALSE(*freed);
  lane_.FinishOne();
  batcher_.Poll();
  EXPECT_EQ(request.completions, 1);
  EXPECT_TRUE(*freed);
}

TEST_F(RegionsTest, ARequestThatIsRefusedHoldsNothing) {
  const auto freed = std::make_shared<bool>(false);
  TestRequest request(1, 8);
  request.PutInto(MakeRegion(1024, 1, Region::kHost, freed), {.input = 0, .output = 64});
  request.set_deadline(SteadyClock::now() - std::chrono::seconds(1));
  Submit(request);
  EXPECT_TRUE(absl::IsDeadlineExceeded(request.last.status));
  EXPECT_TRUE(*freed);
}

}  // namespace
}  // namespace softmax::server
