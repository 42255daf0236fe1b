#include "server/batching/shard.h"

#include <gtest/gtest.h>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using testing::TestWork;

constexpr std::size_t kSlab = 1024;

class ShardTest : public ::testing::Test {
 protected:
  ShardTest() : memory_(256 * kSlab), arena_(memory_.data(), 256 * kSlab, kSlab) {}

  Shard& Make(Shard::Options options = {}) {
    options.batch.bytes = 8 * kSlab;
    options.batch.requests = 4;
    options.inline_copy_bytes = 8 * kSlab;
    backlog_ = std::make_unique<Backlog>(Backlog::Options{}, arena_);
    shard_ = std::make_unique<Shard>(options, arena_, *backlog_, lane_, recorder_, [this] {
      ++wakes_;
      wakes_.notify_all();
    });
    return *shard_;
  }
  void WaitForWake() { wakes_.wait(0); }

  testing::TestMemory memory_;
  Arena arena_;
  testing::PuppetLane lane_;
  testing::CountingRecorder recorder_;
  std::atomic<int> wakes_{0};
  std::unique_ptr<Backlog> backlog_;
  std::unique_ptr<Shard> shard_;
  const TimePoint now_ = SteadyClock::now();
};

TEST_F(ShardTest, ALoneRequestIsLaunchedAtTheFirstFlush) {
  Shard& shard = Make();
  TestWork work(1, 8, 3);
  shard.Submit(&work, now_);
  EXPECT_TRUE(lane_.running.empty());
  shard.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 1u);
  lane_.FinishOne();
  EXPECT_TRUE(shard.Poll());
  EXPECT_EQ(work.completions, 1);
  EXPECT_EQ(work.floats()[7], 6);
  EXPECT_EQ(shard.pending(), 0u);
  ASSERT_EQ(recorder_.batches.size(), 1u);
  EXPECT_EQ(recorder_.batches[0].reason, CloseReason::kIdle);
}

TEST_F(ShardTest, ASmallRequestNeedsRoomForItselfOnly) {
  Shard& shard = Make();
  const Span rest = arena_.TryReserve(255 * kSlab);  // one slab is left, a batch would take eight
  ASSERT_EQ(rest.slabs, 255u);
  TestWork work(1, 8, 3);
  shard.Submit(&work, now_);
  EXPECT_EQ(backlog_->queued_requests(), 0u);
  shard.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 1u);
  lane_.FinishOne();
  shard.Poll();
  EXPECT_EQ(work.completions, 1);
  EXPECT_TRUE(work.last.status.ok());
  arena_.Release(rest);
}

TEST_F(ShardTest, WhatArrivesWhileBusySharesOneLaunch) {
  Shard::Options options;
  options.max_in_flight = 1;
  Shard& shard = Make(options);
  TestWork first(1, 8), second(1, 8), third(1, 4);
  shard.Submit(&first, now_);
  shard.Flush(now_);
  shard.Submit(&second, now_);
  shard.Submit(&third, now_);
  shard.Flush(now_);
  EXPECT_EQ(lane_.running.size(), 1u);  // one in flight at most
  lane_.FinishOne();
  shard.Poll();
  shard.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 1u);
  EXPECT_EQ(lane_.running.front()->requests(), 2u);
  lane_.FinishOne();
  shard.Poll();
  EXPECT_EQ(second.completions + third.completions, 2);
}

TEST_F(ShardTest, AFullBatchClosesWithoutAFlush) {
  Shard& shard = Make();
  std::vector<std::unique_ptr<TestWork>> works;
  for (int i = 0; i < 5; ++i) {
    works.push_back(std::make_unique<TestWork>(1, 8));
    shard.Submit(works.back().get(), now_);
  }
  shard.Poll();
  shard.Flush(now_);
  ASSERT_EQ(lane_.running.size(), 2u);
  EXPECT_EQ(lane_.running[0]->requests(), 4u);
  EXPECT_EQ(lane_.running[1]->requests(), 1u);
  while (!lane_.running.empty()) lane_.FinishOne();
  shard.Poll();
  ASSERT_EQ(recorder_.batches.size(), 2u);
  EXPECT_EQ(recorder_.batches[0].reason, CloseReason::kFull);
}

TEST_F(ShardTest, TypesDoNotMixInABatch) {
  Shard& shard = Make();
  TestWork narrow(1, 8), wide(1, 8, 1, kernels::DataType::kFloat64);
  shard.Submit(&narrow, now_);
  shard.Submit(&wide, now_);
  shard.Flush(now_);
  EXPECT_EQ(lane_.running.size(), 2u);
  while (!lane_.running.empty()) lane_.FinishOne();
  shard.Poll();
  EXPECT_EQ(reinterpret_cast<const double*>(wide.output.data())[0], 2.0);
}

TEST_F(ShardTest, QueueDelayHoldsABatchForCompanyAndNoLonger) {
  Shard::Options options;
  options.max_queue_delay = std::chrono::hours(24);  // only the clock below can end it
  Shard& shard = Make(options);
  TestWork work(1, 8);
  shard.Submit(&work, now_);
  shard.Flush(now_ + std::chrono::hours(23));
  EXPECT_TRUE(lane_.running.empty());
  EXPECT_EQ(shard.next_flush(), now_ + std::chrono::hours(24));
  shard.Flush(now_ + std::chrono::hours(24));
  ASSERT_EQ(lane_.running.size(), 1u);
  lane_.FinishOne();
  shard.Poll();
  EXPECT_EQ(recorder_.batches[0].reason, CloseReason::kDelay);
}

TEST_F(ShardTest, APassedDeadlineIsRefusedBeforeACopy) {
  Shard& shard = Make();
  TestWork work(1, 8);
  work.set_deadline(now_ - std::chrono::seconds(1));
  shard.Submit(&work, now_);
  EXPECT_TRUE(absl::IsDeadlineExceeded(work.last.status));
  EXPECT_EQ(work.copies, 0);
  EXPECT_EQ(shard.pending(), 0u);
}

TEST_F(ShardTest, AnEmptyTensorIsAnsweredAtOnce) {
  Shard& shard = Make();
  TestWork work(0, 8);
  shard.Submit(&work, now_);
  EXPECT_EQ(work.completions, 1);
  EXPECT_TRUE(work.last.status.ok());
}

TEST_F(ShardTest, ADeviceFailureIsTheAnswer) {
  Shard& shard = Make();
  TestWork work(1, 8);
  shard.Submit(&work, now_);
  shard.Flush(now_);
  lane_.FinishOne(absl::InternalError("gone"));
  shard.Poll();
  EXPECT_TRUE(absl::IsInternal(work.last.status));
}

TEST_F(ShardTest, ALargeRequestComesBackThroughTheBacklog) {
  Shard& shard = Make();
  TestWork work(4, 4 * kSlab / 4, 5);  // 16 KiB, more than a batch
  shard.Submit(&work, now_);
  EXPECT_EQ(shard.pending(), 1u);
  WaitForWake();
  EXPECT_TRUE(shard.Poll());
  ASSERT_EQ(lane_.running.size(), 1u);
  lane_.FinishOne();
  shard.Poll();
  EXPECT_EQ(work.completions, 1);
  EXPECT_EQ(work.floats()[0], 10);
  EXPECT_EQ(recorder_.batches[0].reason, CloseReason::kLarge);
  EXPECT_EQ(arena_.slabs_used(), 0u);
}

}  // namespace
}  // namespace softmax::server
