#include "server/execution/watched_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/batching/fakes.h"

namespace softmax::server {
namespace {

using kernels::DataType;
using ::testing::HasSubstr;
using testing::PuppetLane;
using testing::TestMemory;
using testing::TestWork;

constexpr std::size_t kSlab = 4096;
constexpr auto kTimeout = std::chrono::hours(1);

class WatchedLaneTest : public ::testing::Test {
 protected:
  void Make(const LaneFaults& faults = {}, Nanoseconds timeout = kTimeout) {
    auto inner = std::make_unique<PuppetLane>();
    puppet_ = inner.get();
    watch_ = std::make_unique<LaneWatch>(timeout, faults);
    lane_ = std::make_unique<WatchedLane>(std::move(inner), *watch_);
  }
  void Launch(Batch* batch, TestWork* work) {
    const TimePoint now = SteadyClock::now();
    BatchLimits limits;
    limits.bytes = kSlab;
    limits.requests = 4;
    const Batch::Need capacity = Batch::CapacityOf(DataType::kFloat32, DataType::kFloat32, limits);
    batch->Open(DataType::kFloat32, DataType::kFloat32, SpanRef(&arena_, arena_.TryReserve(capacity.total())), capacity,
                now);
    batch->Add(work, now);
    batch->Close(CloseReason::kIdle);
    batch->set_launched(now);
    lane_->Launch(batch);
  }
  static void Complete(Batch* batch) { batch->Complete(batch->status, SteadyClock::now()); }

  TestMemory memory_{64 * kSlab};
  Arena arena_{memory_.data(), 64 * kSlab, kSlab};
  PuppetLane* puppet_ = nullptr;
  std::unique_ptr<LaneWatch> watch_;
  std::unique_ptr<WatchedLane> lane_;
  Batch one_, two_;
  TestWork first_{1, 8, 1}, second_{1, 8, 2};
};

TEST_F(WatchedLaneTest, WhatComesBackInTimePassesThrough) {
  Make();
  Launch(&one_, &first_);
  EXPECT_EQ(lane_->Poll(), nullptr);
  puppet_->FinishOne();
  EXPECT_EQ(lane_->Poll(), &one_);
  Complete(&one_);
  EXPECT_TRUE(first_.last.status.ok());
  EXPECT_EQ(arena_.slabs_used(), 0u);
  EXPECT_FALSE(lane_->CheckOverdue(SteadyClock::now() + 2 * kTimeout));  // nothing runs
  EXPECT_TRUE(watch_->health().ok());
}

TEST_F(WatchedLaneTest, ADeviceThatHangsIsGivenUpAndItsMemoryNeverUsedAgain) {
  Make({}, std::chrono::milliseconds(1));
  Launch(&one_, &first_);
  Launch(&two_, &second_);
  const std::uint64_t held = arena_.slabs_used();
  ASSERT_GT(held, 0u);
  while (!lane_->CheckOverdue(SteadyClock::now())) {
  }
  EXPECT_EQ(lane_->Poll(), &one_);
  EXPECT_EQ(lane_->Poll(), &two_);
  EXPECT_EQ(lane_->Poll(), nullptr);
  for (Batch* batch : {&one_, &two_}) Complete(batch);
  EXPECT_EQ(first_.last.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(second_.last.status.message()), HasSubstr("hangs"));
  EXPECT_EQ(arena_.slabs_used(), held);
  EXPECT_TRUE(watch_->hangs());
  EXPECT_THAT(std::string(watch_->health().message()), HasSubstr("a device hangs"));
  // It comes back after all: nobody takes it any more, and new requests fail at once.
  puppet_->FinishOne();
  EXPECT_EQ(lane_->Poll(), nullptr);
  Batch third;
  TestWork work(1, 8, 3);
  Launch(&third, &work);
  EXPECT_EQ(lane_->Poll(), &third);
  Complete(&third);
  EXPECT_EQ(work.last.status.code(), absl::StatusCode::kInternal);
}

// The look from outside comes while the batch is on its way back.
TEST_F(WatchedLaneTest, ABatchThatIsBackWasNotLate) {
  Make({}, std::chrono::milliseconds(1));
  Launch(&one_, &first_);
  while (!lane_->CheckOverdue(SteadyClock::now())) {
  }
  puppet_->FinishOne();
  EXPECT_EQ(lane_->Poll(), &one_);
  EXPECT_EQ(lane_->Poll(), nullptr);
  Complete(&one_);
  EXPECT_TRUE(first_.last.status.ok());
  EXPECT_TRUE(watch_->health().ok());
}

TEST_F(WatchedLaneTest, NoLimitIsNoLimit) {
  Make({}, Nanoseconds(0));
  Launch(&one_, &first_);
  EXPECT_FALSE(lane_->CheckOverdue(SteadyClock::now() + std::chrono::hours(1000)));
  puppet_->FinishOne();
  Complete(lane_->Poll());
}

TEST_F(WatchedLaneTest, FaultsDoWhatTheySay) {
  Make({LaneFaults::Kind::kError, 2, Nanoseconds(0)});
  Launch(&one_, &first_);
  Launch(&two_, &second_);
  EXPECT_EQ(puppet_->running.size(), 1u);
  EXPECT_EQ(lane_->Poll(), &two_);
  puppet_->FinishOne();
  EXPECT_EQ(lane_->Poll(), &one_);
  for (Batch* batch : {&one_, &two_}) Complete(batch);
  EXPECT_TRUE(first_.last.status.ok());
  EXPECT_EQ(second_.last.status.code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(watch_->health().ok());
  EXPECT_FALSE(watch_->hangs());
  EXPECT_EQ(arena_.slabs_used(), 0u);  // that device writes nothing more

  Make({LaneFaults::Kind::kLate, 0, std::chrono::milliseconds(20)});
  const TimePoint begin = SteadyClock::now();
  Launch(&one_, &first_);
  puppet_->FinishOne();
  Batch* back = nullptr;
  while (back == nullptr) back = lane_->Poll();
  EXPECT_GE(SteadyClock::now() - begin, std::chrono::milliseconds(20));
  Complete(back);
}

}  // namespace
}  // namespace softmax::server
