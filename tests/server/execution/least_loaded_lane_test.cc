#include "server/execution/least_loaded_lane.h"

#include <gtest/gtest.h>

#include <utility>

#include "server/execution/topology.h"
#include "server/execution/watched_lane.h"
#include "tests/server/execution/lane_fixture.h"

namespace softmax::server {
namespace {

using testing::PuppetLane;

class LeastLoadedLaneTest : public testing::LaneFixture {
 protected:
  void Make(std::uint32_t count, std::uint32_t home = 0) {
    puppets_.clear();
    devices_ = std::make_unique<Devices>(std::vector<std::string>(count, "device"), Nanoseconds(0));
    std::vector<std::unique_ptr<Lane>> lanes;
    for (std::uint32_t device = 0; device < count; ++device) {
      auto puppet = std::make_unique<PuppetLane>();
      puppets_.push_back(puppet.get());
      lanes.push_back(std::make_unique<WatchedLane>(std::move(puppet), device, *devices_));
    }
    lane_ = std::make_unique<LeastLoadedLane>(std::move(lanes), OrderFrom(home), *devices_);
  }
  std::vector<std::uint32_t> OrderFrom(std::uint32_t home) const {
    return Topology(std::vector<CoreSet>(devices_->count())).DevicesFrom(home);
  }
  Launched& Launch(std::uint64_t bytes = kSlab, int device = Region::kHost) {
    launched_.push_back(Fill(bytes, device));
    lane_->Launch(&launched_.back()->batch);
    return *launched_.back();
  }
  std::vector<std::size_t> Running() const {
    std::vector<std::size_t> running;
    for (const PuppetLane* puppet : puppets_) running.push_back(puppet->running.size());
    return running;
  }
  // Finishes and completes what device `from` has as oldest.
  absl::Status Return(std::uint32_t from, absl::Status status = absl::OkStatus()) {
    puppets_[from]->FinishOne(std::move(status));
    Batch* const batch = lane_->Poll();
    EXPECT_NE(batch, nullptr);
    return Complete(batch);
  }
  // Passes the tests that are asked for, as DeviceGroup does.
  void PassTests() {
    while (devices_->testing()) devices_->Pass(*devices_->WaitForTest({}));
  }
  void ReturnAll() {
    for (std::uint32_t device = 0; device < puppets_.size(); ++device) {
      while (!puppets_[device]->running.empty()) (void)Return(device);
    }
  }

  std::unique_ptr<Devices> devices_;
  std::vector<PuppetLane*> puppets_;
  std::unique_ptr<LeastLoadedLane> lane_;
  std::vector<std::unique_ptr<Launched>> launched_;
};

TEST_F(LeastLoadedLaneTest, BatchesGoWhereTheFewestBytesAreInFlight) {
  Make(3, /*home=*/1);
  EXPECT_FALSE(lane_->needs_polling());
  Launch(8 * kSlab);
  EXPECT_TRUE(lane_->needs_polling());
  EXPECT_EQ(Running(), (std::vector<std::size_t>{0, 1, 0}));  // all idle: home
  Launch();
  EXPECT_EQ(Running(), (std::vector<std::size_t>{0, 1, 1}));
  Launch(2 * kSlab);
  EXPECT_EQ(Running(), (std::vector<std::size_t>{1, 1, 1}));
  Launch();  // a batch counts by the bytes in it: 8 KiB, 32 KiB and 32 bytes
  EXPECT_EQ(Running(), (std::vector<std::size_t>{1, 1, 2}));
  EXPECT_TRUE(Return(1).ok());
  Launch();
  EXPECT_EQ(Running(), (std::vector<std::size_t>{1, 1, 2}));  // what was returned counts no more
  ReturnAll();
  for (const Devices::View& view : devices_->views()) EXPECT_EQ(view.bytes_in_flight, 0u);
  EXPECT_EQ(arena_.slabs_used(), 0u);
}

TEST_F(LeastLoadedLaneTest, AfterALossBatchesWaitForTheTestOfTheOthers) {
  Make(2);
  Launch(4 * kSlab);
  EXPECT_TRUE(absl::IsInternal(Return(0, absl::InternalError("it broke"))));
  EXPECT_TRUE(devices_->degraded());
  Launched& waiting = Launch();
  EXPECT_EQ(Running(), (std::vector<std::size_t>{0, 0}));
  EXPECT_EQ(lane_->Poll(), nullptr);
  EXPECT_TRUE(lane_->needs_polling());  // nobody tells of the test's end
  PassTests();
  EXPECT_EQ(lane_->Poll(), nullptr);
  EXPECT_EQ(Running(), (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(Return(1).ok());
  EXPECT_EQ(waiting.request.completions, 1);
  for (int i = 0; i < 3; ++i) Launch();
  EXPECT_EQ(Running(), (std::vector<std::size_t>{0, 3}));  // the lost one gets nothing
  ReturnAll();
}

TEST_F(LeastLoadedLaneTest, WithoutADeviceBatchesMayBeSentElsewhere) {
  Make(2);
  devices_->Lose(1, "gone", Devices::Loss::kFailed);
  Launched& waiting = Launch();
  devices_->Lose(0, "gone, too", Devices::Loss::kFailed);
  Batch* const batch = lane_->Poll();
  ASSERT_EQ(batch, &waiting.batch);
  EXPECT_TRUE(absl::IsUnavailable(Complete(batch)));
  EXPECT_FALSE(devices_->health(SteadyClock::now(), std::chrono::hours(1)).ok());
}

// The loss of a device comes between the choice of it and the launch.
TEST_F(LeastLoadedLaneTest, WhatALostDeviceRefusedRunsOnAnother) {
  Make(2);
  class Refuses final : public Lane {
   public:
    explicit Refuses(Devices& devices) : devices_(devices) {}
    void Launch(Batch* batch) override {
      devices_.Lose(0, "gone", Devices::Loss::kFailed);
      batch->status = absl::UnavailableError("never ran");
      batch_ = batch;
    }
    Batch* Poll() override { return std::exchange(batch_, nullptr); }
    bool needs_polling() const override { return true; }

   private:
    Devices& devices_;
    Batch* batch_ = nullptr;
  };
  std::vector<std::unique_ptr<Lane>> lanes;
  lanes.push_back(std::make_unique<Refuses>(*devices_));
  auto puppet = std::make_unique<PuppetLane>();
  puppets_[1] = puppet.get();
  lanes.push_back(std::move(puppet));
  lane_ = std::make_unique<LeastLoadedLane>(std::move(lanes), OrderFrom(0), *devices_);
  Launch();
  EXPECT_EQ(lane_->Poll(), nullptr);  // waits for the other's test
  PassTests();
  EXPECT_EQ(lane_->Poll(), nullptr);
  EXPECT_TRUE(Return(1).ok());
}

TEST_F(LeastLoadedLaneTest, WhatLiesInADevicesMemoryRunsThere) {
  Make(3);
  for (int i = 0; i < 3; ++i) Launch(kSlab, 2);
  EXPECT_EQ(Running(), (std::vector<std::size_t>{0, 0, 3}));
  Launch();
  EXPECT_EQ(Running(), (std::vector<std::size_t>{1, 0, 3}));
  ReturnAll();
  devices_->Lose(0, "gone", Devices::Loss::kFailed);
  Launch(kSlab, 2);
  EXPECT_EQ(Running(), (std::vector<std::size_t>{0, 0, 0}));  // until the device has passed its test
  PassTests();
  EXPECT_EQ(lane_->Poll(), nullptr);
  EXPECT_EQ(Running(), (std::vector<std::size_t>{0, 0, 1}));
  ReturnAll();
  Launched& lost = Launch(kSlab, 0);
  Batch* const batch = lane_->Poll();
  ASSERT_EQ(batch, &lost.batch);
  EXPECT_TRUE(absl::IsUnavailable(Complete(batch)));  // no other device can run it
}

TEST_F(LeastLoadedLaneTest, ATestFromBeforeAnotherLossDoesNotCount) {
  Make(3);
  devices_->Lose(0, "gone", Devices::Loss::kFailed);
  const Devices::Test old = *devices_->WaitForTest({});
  devices_->Lose(old.device == 1 ? 2 : 1, "gone, too", Devices::Loss::kFailed);
  devices_->Pass(old);
  EXPECT_EQ(devices_->state(old.device), Devices::State::kTesting);
  PassTests();
  EXPECT_EQ(devices_->state(old.device), Devices::State::kServing);
}

TEST_F(LeastLoadedLaneTest, DegradedIsForALimitedTime) {
  Make(2);
  EXPECT_TRUE(devices_->health(SteadyClock::now() + std::chrono::hours(99), Nanoseconds(0)).ok());
  devices_->Lose(1, "it broke", Devices::Loss::kFailed);
  const TimePoint now = SteadyClock::now();
  EXPECT_TRUE(devices_->health(now, std::chrono::minutes(10)).ok());
  EXPECT_EQ(devices_->health(now + std::chrono::minutes(11), std::chrono::minutes(10)).message(),
            "device 1 (device) was lost and degraded-limit is over: it broke");
  EXPECT_FALSE(devices_->health(now, Nanoseconds(0)).ok());
}

}  // namespace
}  // namespace softmax::server
