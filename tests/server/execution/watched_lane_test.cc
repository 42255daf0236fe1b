#include "server/execution/watched_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/execution/lane_fixture.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;
using testing::PuppetLane;

constexpr auto kTimeout = std::chrono::hours(1);

class WatchedLaneTest : public testing::LaneFixture {
 protected:
  void Make(Nanoseconds timeout = kTimeout) {
    auto inner = std::make_unique<PuppetLane>();
    puppet_ = inner.get();
    devices_ = std::make_unique<Devices>(std::vector<std::string>{"only"}, timeout);
    lane_ = std::make_unique<WatchedLane>(std::move(inner), 0, *devices_);
  }
  void WaitUntilOverdue() {
    while (!lane_->CheckOverdue(SteadyClock::now())) {
    }
  }

  PuppetLane* puppet_ = nullptr;
  std::unique_ptr<Devices> devices_;
  std::unique_ptr<WatchedLane> lane_;
};

TEST_F(WatchedLaneTest, WhatComesBackInTimePassesThrough) {
  Make();
  const auto one = Fill();
  lane_->Launch(&one->batch);
  EXPECT_EQ(lane_->Poll(), nullptr);
  puppet_->FinishOne();
  EXPECT_EQ(lane_->Poll(), &one->batch);
  EXPECT_TRUE(Complete(&one->batch).ok());
  EXPECT_TRUE(one->request.last.status.ok());
  EXPECT_EQ(arena_.slabs_used(), 0u);
  EXPECT_FALSE(lane_->CheckOverdue(SteadyClock::now() + 2 * kTimeout));  // nothing runs
  EXPECT_EQ(devices_->lost(), 0u);
}

TEST_F(WatchedLaneTest, ADeviceThatHangsIsGivenUpAndItsMemoryNeverUsedAgain) {
  Make(std::chrono::milliseconds(1));
  const auto one = Fill();
  const auto two = Fill();
  lane_->Launch(&one->batch);
  lane_->Launch(&two->batch);
  const std::uint64_t held = arena_.slabs_used();
  ASSERT_GT(held, 0u);
  WaitUntilOverdue();
  EXPECT_EQ(lane_->Poll(), &one->batch);
  EXPECT_EQ(lane_->Poll(), &two->batch);
  EXPECT_EQ(lane_->Poll(), nullptr);
  for (Batch* batch : {&one->batch, &two->batch}) EXPECT_TRUE(absl::IsInternal(Complete(batch)));
  EXPECT_THAT(std::string(two->request.last.status.message()), HasSubstr("hangs"));
  EXPECT_EQ(arena_.slabs_used(), held);
  EXPECT_TRUE(devices_->hangs(0));
  EXPECT_THAT(devices_->views()[0].reason, HasSubstr("a device hangs"));
  // It comes back after all: nobody takes it any more. What is launched now never ran, and may be sent elsewhere.
  puppet_->FinishOne();
  EXPECT_EQ(lane_->Poll(), nullptr);
  const auto late = Fill();
  lane_->Launch(&late->batch);
  EXPECT_EQ(lane_->Poll(), &late->batch);
  EXPECT_TRUE(absl::IsUnavailable(Complete(&late->batch)));
  EXPECT_EQ(arena_.slabs_used(), held);
}

// The look from outside comes while the batch is on its way back.
TEST_F(WatchedLaneTest, ABatchThatIsBackWasNotLate) {
  Make(std::chrono::milliseconds(1));
  const auto one = Fill();
  lane_->Launch(&one->batch);
  WaitUntilOverdue();
  puppet_->FinishOne();
  EXPECT_EQ(lane_->Poll(), &one->batch);
  EXPECT_EQ(lane_->Poll(), nullptr);
  EXPECT_TRUE(Complete(&one->batch).ok());
  EXPECT_EQ(devices_->lost(), 0u);
}

TEST_F(WatchedLaneTest, NoLimitIsNoLimit) {
  Make(Nanoseconds(0));
  const auto one = Fill();
  lane_->Launch(&one->batch);
  EXPECT_FALSE(lane_->CheckOverdue(SteadyClock::now() + std::chrono::hours(1000)));
  puppet_->FinishOne();
  EXPECT_TRUE(Complete(lane_->Poll()).ok());
}

TEST_F(WatchedLaneTest, TimeInWhichNobodyRanDoesNotCount) {
  Make();
  const auto one = Fill();
  lane_->Launch(&one->batch);
  const TimePoint jumped = SteadyClock::now() + 10 * kTimeout;
  devices_->RestartPatience(jumped);
  EXPECT_FALSE(lane_->CheckOverdue(jumped + kTimeout / 2));
  EXPECT_TRUE(lane_->CheckOverdue(jumped + 2 * kTimeout));
  puppet_->FinishOne();
  EXPECT_TRUE(Complete(lane_->Poll()).ok());
}

TEST_F(WatchedLaneTest, AnErrorLosesTheDeviceAndKeepsWhatItMayStillWrite) {
  Make();
  const auto one = Fill();
  const auto two = Fill();
  lane_->Launch(&one->batch);
  lane_->Launch(&two->batch);
  puppet_->FinishOne(absl::InternalError("it broke"));
  EXPECT_EQ(lane_->Poll(), &one->batch);
  EXPECT_TRUE(absl::IsInternal(Complete(&one->batch)));
  EXPECT_EQ(devices_->state(0), Devices::State::kLost);
  EXPECT_EQ(devices_->views()[0].reason, "it broke");
  EXPECT_FALSE(devices_->hangs(0));
  // What runs there may still end well, and is the caller's then.
  puppet_->FinishOne();
  EXPECT_EQ(lane_->Poll(), &two->batch);
  EXPECT_TRUE(Complete(&two->batch).ok());
  EXPECT_EQ(arena_.slabs_used(), 1u);
}

}  // namespace
}  // namespace softmax::server
