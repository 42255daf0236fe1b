#include "server/execution/faulty_lane.h"

#include <gtest/gtest.h>

#include "tests/server/execution/lane_fixture.h"

namespace softmax::server {
namespace {

using testing::PuppetLane;
using Kind = LaunchFault::Kind;

class FaultyLaneTest : public testing::LaneFixture {
 protected:
  // Two lanes, on devices 0 and 1.
  void Make(const LaunchFault& fault) {
    Faults faults;
    faults.launches.push_back(fault);
    plan_ = std::make_unique<FaultPlan>(faults);
    for (std::uint32_t device = 0; device < 2; ++device) {
      auto inner = std::make_unique<PuppetLane>();
      puppets_[device] = inner.get();
      lanes_[device] = std::make_unique<FaultyLane>(std::move(inner), device, *plan_);
    }
  }
  // What comes of one launch: "ok", "error", or "nothing" within a moment.
  std::string Outcome(std::uint32_t device) {
    auto launched = Fill();
    lanes_[device]->Launch(&launched->batch);
    if (!puppets_[device]->running.empty()) puppets_[device]->FinishOne();
    Batch* const back = lanes_[device]->Poll();
    if (back == nullptr) {
      kept_.push_back(std::move(launched));
      return "nothing";
    }
    return Complete(back).ok() ? "ok" : "error";
  }

  std::unique_ptr<FaultPlan> plan_;
  PuppetLane* puppets_[2] = {};
  std::unique_ptr<FaultyLane> lanes_[2];
  std::vector<std::unique_ptr<Launched>> kept_;
};

TEST_F(FaultyLaneTest, OneLaunchIsRefused) {
  Make({Kind::kError, 3});
  EXPECT_EQ(Outcome(0), "ok");
  EXPECT_EQ(Outcome(1), "ok");
  EXPECT_EQ(Outcome(0), "error");  // the third of all
  EXPECT_EQ(Outcome(0), "ok");
  EXPECT_EQ(Outcome(1), "ok");
}

TEST_F(FaultyLaneTest, AStickyErrorStaysOnItsDevice) {
  Make({Kind::kSticky, 2, Nanoseconds(0), 1});
  EXPECT_EQ(Outcome(1), "ok");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Outcome(0), "ok");
    EXPECT_EQ(Outcome(1), "error");
  }
}

TEST_F(FaultyLaneTest, AHangingDeviceTakesEverythingAndGivesNothing) {
  Make({Kind::kHang, 2, Nanoseconds(0), 0});
  EXPECT_EQ(Outcome(0), "ok");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Outcome(0), "nothing");
    EXPECT_EQ(Outcome(1), "ok");
  }
}

TEST_F(FaultyLaneTest, ALateBatchIsKeptBack) {
  Make({Kind::kLate, 0, std::chrono::milliseconds(20), 1});
  EXPECT_EQ(Outcome(0), "ok");
  const TimePoint begin = SteadyClock::now();
  ASSERT_EQ(Outcome(1), "nothing");
  EXPECT_TRUE(lanes_[1]->needs_polling());
  Batch* back = nullptr;
  while (back == nullptr) back = lanes_[1]->Poll();
  EXPECT_GE(SteadyClock::now() - begin, std::chrono::milliseconds(20));
  EXPECT_TRUE(Complete(back).ok());
}

TEST(FaultPlanTest, RefusesTheAllocationAndTheCallOfTheGivenNumberOnly) {
  Faults faults;
  faults.allocation = 2;
  faults.calls = {{"cudaMalloc", 2, 2}, {"cudaSetDevice", 1, 700}};
  FaultPlan plan(faults);
  EXPECT_FALSE(plan.RefusesAllocation());
  EXPECT_TRUE(plan.RefusesAllocation());
  EXPECT_FALSE(plan.RefusesAllocation());
  EXPECT_EQ(plan.NextCall("cudaMalloc"), 0);
  EXPECT_EQ(plan.NextCall("cudaSetDevice"), 700);
  EXPECT_EQ(plan.NextCall("cudaMalloc"), 2);
  EXPECT_EQ(plan.NextCall("cudaMalloc"), 0);
  EXPECT_EQ(plan.NextCall("cudaSetDevice"), 0);
}

}  // namespace
}  // namespace softmax::server
