#include "server/batching/batcher.h"

#include <gtest/gtest.h>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using testing::TestRequest;

constexpr std::size_t kSlab = 1024;

class BatcherTest : public ::testing::Test {
 protected:
  BatcherTest() : memory_(256 * kSlab), arena_(memory_.data(), 256 * kSlab, kSlab) {}

  Batcher& Make(Batcher::Options options = {}) {
    options.batch.bytes = 8 * kSlab;
    options.batch.requests = 4;
    options.inline_copy_bytes = 8 * kSlab;
    backlog_ = std::make_unique<Backlog>(Backlog::Options{}, arena_);
    batcher_ = std::make_unique<Batcher>(options, arena_, *backlog_, lane_, recorder_, [this] {
      ++wakes_;
      wakes_.notify_all();
    });
    return *batcher_;
  }
  void WaitForWake() { wakes_.wait(0); }
  // What runs has run, all of it.
  void Finish(Batcher& batcher) {
    while (!lane_.running.empty()) lane_.FinishOne();
    batcher.Poll();
  }

  testing::TestMemory memory_;
  Arena arena_;
  testing::PuppetLane lane_;
  testing::CountingRecorder recorder_;
  std::atomic<int> wakes_{0};
  std::unique_ptr<Backlog> backlog_;
  std::unique_ptr<Batcher> batcher_;
  const TimePoint now_ = SteadyClock::now();
};

TEST_F(BatcherTest, ALoneRequestIsLaunchedAtTheFirstFlush) {
  Batcher& batcher = Make();
  TestRequest request(1, 8, 3);
  batcher.Submit(&request, now_);
  EXPECT_TRUE(lane_.running.empty());
  EXPECT_EQ(batcher.next_flush(), kNoDeadline);  // no clock is waited for
  batcher.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 1u);
  lane_.FinishOne();
  EXPECT_TRUE(batcher.Poll());
  EXPECT_EQ(request.completions, 1);
  EXPECT_EQ(request.floats()[7], 6);
  EXPECT_EQ(batcher.pending(), 0u);
  ASSERT_EQ(recorder_.batches.size(), 1u);
  EXPECT_EQ(recorder_.batches[0].reason, CloseReason::kIdle);
}

TEST_F(BatcherTest, ASmallRequestNeedsRoomForItselfOnly) {
  Batcher& batcher = Make();
  const Span rest = arena_.TryReserve(255 * kSlab);  // one slab is left, a batch would take eight
  ASSERT_EQ(rest.slabs, 255u);
  TestRequest request(1, 8, 3);
  batcher.Submit(&request, now_);
  EXPECT_EQ(backlog_->queued_requests(), 0u);
  batcher.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 1u);
  Finish(batcher);
  EXPECT_EQ(request.completions, 1);
  EXPECT_TRUE(request.last.status.ok());
  arena_.Release(rest);
}

// As the CPU's lane does with little work, beside batches that keep its workers busy for long.
TEST_F(BatcherTest, WhatTheLaneRunsAtOnceWaitsForNoOther) {
  Batcher& batcher = Make({.max_in_flight = 1});
  lane_.runs_at_once_bytes = 128;
  TestRequest longer(1, 64), waits(1, 64), small(1, 8);  // 256 bytes each, and 96
  batcher.Submit(&longer, now_);
  batcher.Flush(now_);
  batcher.Submit(&waits, now_);
  batcher.Flush(now_);
  EXPECT_EQ(lane_.running.size(), 1u);
  small.mutable_spec().output_type = kernels::DataType::kFloat64;  // another batch
  batcher.Submit(&small, now_);
  batcher.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 2u);
  EXPECT_EQ(lane_.running.back()->bytes(), 32u + 64u);
  for (int i = 0; i < 3; ++i) {
    lane_.FinishOne();
    batcher.Poll();
    batcher.Flush(now_);
    if (lane_.running.empty()) break;
  }
  EXPECT_EQ(longer.completions + waits.completions + small.completions, 3);
}

TEST_F(BatcherTest, WhatArrivesWhileBusySharesOneLaunch) {
  Batcher& batcher = Make({.max_in_flight = 1});
  TestRequest first(1, 8), second(1, 8), third(1, 4);
  batcher.Submit(&first, now_);
  batcher.Flush(now_);
  batcher.Submit(&second, now_);
  batcher.Submit(&third, now_);
  batcher.Flush(now_);
  EXPECT_EQ(lane_.running.size(), 1u);  // one in flight at most
  Finish(batcher);
  batcher.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 1u);
  EXPECT_EQ(lane_.running.front()->requests(), 2u);
  Finish(batcher);
  EXPECT_EQ(second.completions + third.completions, 2);
}

TEST_F(BatcherTest, ABatchIsFullWithItsLastRequestNotWithTheNext) {
  for (const std::size_t count : {4, 5}) {
    Batcher& batcher = Make();
    std::vector<std::unique_ptr<TestRequest>> requests;
    while (requests.size() < count) {
      requests.push_back(std::make_unique<TestRequest>(1, 8));
      batcher.Submit(requests.back().get(), now_);
    }
    batcher.Flush(now_);
    ASSERT_EQ(lane_.running.size(), count - 3);
    EXPECT_EQ(lane_.running[0]->requests(), 4u);
    Finish(batcher);
    EXPECT_EQ(recorder_.batches[recorder_.batches.size() - (count - 3)].reason, CloseReason::kFull);
  }
}

TEST_F(BatcherTest, WhatNobodyWaitsForIsNotLaunched) {
  Batcher& batcher = Make({.max_in_flight = 1});
  TestRequest running(1, 8), left(1, 8), left_too(1, 8), before(1, 8);
  batcher.Submit(&running, now_);
  batcher.Flush(now_);
  batcher.Submit(&left, now_);
  batcher.Submit(&left_too, now_);
  batcher.Flush(now_);
  for (TestRequest* request : {&left, &left_too, &before}) request->left = true;
  batcher.Submit(&before, now_);
  EXPECT_EQ(before.copies, 0);
  Finish(batcher);
  batcher.Flush(now_);
  batcher.Poll();
  EXPECT_TRUE(lane_.running.empty());
  for (TestRequest* request : {&left, &left_too, &before}) {
    EXPECT_EQ(request->completions, 1);
    EXPECT_TRUE(absl::IsCancelled(request->last.status)) << request->last.status;
    EXPECT_FALSE(request->last.ran);
  }
  EXPECT_EQ(batcher.pending(), 0u);
  EXPECT_EQ(arena_.slabs_used(), 0u);
  EXPECT_EQ(recorder_.batches.size(), 1u);
}

TEST_F(BatcherTest, ABatchThatOneStillWaitsForIsLaunched) {
  Batcher& batcher = Make();
  TestRequest left(1, 8), there(1, 8, 3);
  batcher.Submit(&left, now_);
  batcher.Submit(&there, now_);
  left.left = true;
  batcher.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 1u);
  Finish(batcher);
  EXPECT_EQ(there.floats()[7], 6);
}

TEST_F(BatcherTest, TypesDoNotMixInABatch) {
  Batcher& batcher = Make();
  TestRequest narrow(1, 8), wide(1, 8, 1, kernels::DataType::kFloat64);
  batcher.Submit(&narrow, now_);
  batcher.Submit(&wide, now_);
  batcher.Flush(now_);
  EXPECT_EQ(lane_.running.size(), 2u);
  Finish(batcher);
  EXPECT_EQ(reinterpret_cast<const double*>(wide.output.data())[0], 2.0);
}

TEST_F(BatcherTest, QueueDelayHoldsABatchForCompanyAndNoLonger) {
  Batcher::Options options;
  options.max_queue_delay = std::chrono::hours(24);  // only the clock below can end it
  Batcher& batcher = Make(options);
  TestRequest request(1, 8);
  batcher.Submit(&request, now_);
  batcher.Flush(now_ + std::chrono::hours(23));
  EXPECT_TRUE(lane_.running.empty());
  EXPECT_EQ(batcher.next_flush(), now_ + std::chrono::hours(24));
  batcher.Flush(now_ + std::chrono::hours(24));
  ASSERT_EQ(lane_.running.size(), 1u);
  Finish(batcher);
  EXPECT_EQ(recorder_.batches[0].reason, CloseReason::kDelay);
}

TEST_F(BatcherTest, APassedDeadlineIsRefusedBeforeACopy) {
  Batcher& batcher = Make();
  TestRequest request(1, 8);
  request.set_deadline(now_ - std::chrono::seconds(1));
  batcher.Submit(&request, now_);
  EXPECT_TRUE(absl::IsDeadlineExceeded(request.last.status));
  EXPECT_EQ(request.copies, 0);
  EXPECT_EQ(batcher.pending(), 0u);
}

TEST_F(BatcherTest, MuchThatIsOpenIsLaunchedBeforeMoreIsTaken) {
  testing::TestMemory memory(2 << 20);
  Arena arena(memory.data(), 2 << 20, 64 << 10);
  Backlog backlog({.threads = 0}, arena);
  Batcher batcher({.batch = {.bytes = 1 << 20}}, arena, backlog, lane_, recorder_, [] {});
  TestRequest half(1, 32 << 10), small(1, 8), rest(1, 32 << 10);  // of 256 KiB
  for (TestRequest* request : {&half, &small}) {
    batcher.Submit(request, now_);
    EXPECT_FALSE(batcher.MustFlushEarly());
  }
  batcher.Submit(&rest, now_);
  EXPECT_TRUE(batcher.MustFlushEarly());
  batcher.Flush(now_);
  EXPECT_FALSE(batcher.MustFlushEarly());
  Finish(batcher);
  EXPECT_EQ(half.completions + small.completions + rest.completions, 3);
}

// Each costs as much as 64 bytes.
TEST_F(BatcherTest, ManyPiecesAreGatheredByTheBacklog) {
  Backlog backlog({.threads = 0}, arena_);
  Batcher batcher({.inline_copy_bytes = 8 * kSlab}, arena_, backlog, lane_, recorder_, [] {});
  TestRequest some(1, kSlab), more(1, kSlab);  // 4 KiB each
  some.mutable_spec().pieces = 4 * kSlab / 64;
  more.mutable_spec().pieces = some.spec().pieces + 1;
  batcher.Submit(&some, now_);
  EXPECT_EQ(backlog.queued_requests(), 0u);
  batcher.Submit(&more, now_);
  EXPECT_EQ(backlog.queued_requests(), 1u);
  Backlog::Taken taken;
  TimePoint next;
  ASSERT_TRUE(backlog.TryTake(&taken, &next));
  backlog.CarryOut(std::move(taken));
  batcher.Poll();
  batcher.Flush(now_);
  Finish(batcher);
  EXPECT_EQ(some.completions + more.completions, 2);
}

TEST_F(BatcherTest, AnEmptyTensorIsAnsweredAtOnce) {
  Batcher& batcher = Make();
  TestRequest request(0, 8);
  batcher.Submit(&request, now_);
  EXPECT_EQ(request.completions, 1);
  EXPECT_TRUE(request.last.status.ok());
}

TEST_F(BatcherTest, ADeviceFailureIsTheAnswer) {
  Batcher& batcher = Make();
  TestRequest request(1, 8);
  batcher.Submit(&request, now_);
  batcher.Flush(now_);
  lane_.FinishOne(absl::InternalError("gone"));
  batcher.Poll();
  EXPECT_TRUE(absl::IsInternal(request.last.status));
}

// By its reason: how it is counted, and when its caller may try again.
TEST_F(BatcherTest, WhatTheBacklogFailsIsCountedAndHasItsPushback) {
  static TimePoint now;
  now = now_;
  Backlog backlog({.threads = 0, .max_wait = std::chrono::seconds(10)}, arena_, [] { return now; });
  Batcher batcher({}, arena_, backlog, lane_, recorder_, [] {});
  const SpanRef all(&arena_, arena_.TryReserve(256 * kSlab));
  const auto expect = [&](TestRequest& request, absl::StatusCode code, RefuseReason reason, std::uint32_t retry_ms) {
    Backlog::Taken taken;
    TimePoint next;
    while (backlog.TryTake(&taken, &next)) backlog.CarryOut(std::exchange(taken, {}));
    batcher.Poll();
    EXPECT_EQ(request.completions, 1);
    EXPECT_EQ(request.last.status.code(), code) << request.last.status;
    EXPECT_EQ(request.last.retry_after_ms, retry_ms);
    EXPECT_EQ(recorder_.rejected.back(), reason);
    EXPECT_EQ(batcher.pending(), 0u);
  };
  TestRequest late(1, 8), without_memory(1, 8), at_the_end(1, 8), too_many(1, 8);
  late.set_deadline(now + std::chrono::seconds(1));
  batcher.Submit(&late, now);
  now += std::chrono::seconds(1);
  expect(late, absl::StatusCode::kDeadlineExceeded, RefuseReason::kDeadline, 0);
  batcher.Submit(&without_memory, now);
  Backlog::Taken taken;
  TimePoint next;
  EXPECT_FALSE(backlog.TryTake(&taken, &next));  // it waits from now on
  now += std::chrono::seconds(10);
  expect(without_memory, absl::StatusCode::kResourceExhausted, RefuseReason::kNoMemory, 1000);
  batcher.Submit(&at_the_end, now);
  backlog.Stop(/*fail=*/true);
  expect(at_the_end, absl::StatusCode::kUnavailable, RefuseReason::kDraining, 0);
  batcher.Submit(&too_many, now);  // it takes no more
  expect(too_many, absl::StatusCode::kResourceExhausted, RefuseReason::kQueueFull, 20);
}

TEST_F(BatcherTest, ALargeRequestComesBackThroughTheBacklog) {
  Batcher& batcher = Make();
  TestRequest request(4, 4 * kSlab / 4, 5);  // 16 KiB, more than a batch
  batcher.Submit(&request, now_);
  EXPECT_EQ(batcher.pending(), 1u);
  WaitForWake();
  EXPECT_TRUE(batcher.Poll());
  ASSERT_EQ(lane_.running.size(), 1u);
  Finish(batcher);
  EXPECT_EQ(request.completions, 1);
  EXPECT_EQ(request.floats()[0], 10);
  EXPECT_EQ(recorder_.batches[0].reason, CloseReason::kLarge);
  EXPECT_EQ(arena_.slabs_used(), 0u);
}

}  // namespace
}  // namespace softmax::server
