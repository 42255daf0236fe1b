#include "server/execution/device_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/server/execution/lane_fixture.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;
using Kind = LaunchFault::Kind;

constexpr std::uint64_t kArenaBytes = 1 << 20;
constexpr std::uint64_t kSlabBytes = 4096;

// The CPU backend posing as devices, with faults, and one thread's lane.
class DeviceGroupTest : public ::testing::Test {
 protected:
  void Make(std::uint64_t devices, std::vector<LaunchFault> launches, DeviceGroup::Options options = {}) {
    lane_.reset();
    group_.reset();
    Faults faults;
    faults.devices = devices;
    faults.launches = std::move(launches);
    plan_ = std::make_unique<FaultPlan>(faults);
    ExecutorOptions executor;
    executor.backend = Backend::kCpu;
    executor.arena_bytes = kArenaBytes;
    executor.faults = plan_.get();
    executor_ = *CreateExecutor(executor);
    arena_ = std::make_unique<Arena>(executor_->memory(), kArenaBytes, kSlabBytes);
    options.arena_bytes = kArenaBytes;
    group_ = std::make_unique<DeviceGroup>(*executor_, options, plan_.get());
    lane_ = *group_->CreateLane([] {});
    ASSERT_TRUE(group_->Start().ok());
  }

  // Launches a batch of one request.
  void Launch(testing::TestRequest* request, Batch* batch, TimePoint now) {
    batch->Open(request->spec().input_type, request->spec().output_type,
                SpanRef(arena_.get(), arena_->TryReserve(kSlabBytes)), Batch::NeedOf(request->spec()), now);
    batch->Add(request, now);
    batch->Close(CloseReason::kIdle);
    batch->set_launched(now);
    lane_->Launch(batch);
  }

  // One small batch, and how it ended. Sweeps meanwhile, as a server does.
  absl::Status Run() {
    testing::TestRequest request(1, 8, 1);
    Batch batch;
    Launch(&request, &batch, SteadyClock::now());
    Batch* back = nullptr;
    while ((back = lane_->Poll()) == nullptr) {
      group_->Sweep(SteadyClock::now());
      std::this_thread::yield();
    }
    EXPECT_EQ(back, &batch);
    const absl::Status status = batch.status;
    batch.Complete(status, SteadyClock::now());
    if (status.ok()) {
      EXPECT_FLOAT_EQ(request.floats()[0], 0.125f);
    }
    return status;
  }

  // So many small batches at a time; how many of them were answered.
  std::uint32_t RunSideBySide(std::uint32_t count) {
    std::deque<testing::TestRequest> requests;
    std::deque<Batch> batches;
    for (std::uint32_t i = 0; i < count; ++i) {
      Launch(&requests.emplace_back(1, 8, 1), &batches.emplace_back(), SteadyClock::now());
    }
    std::uint32_t answered = 0;
    for (std::uint32_t back = 0; back < count;) {
      group_->Sweep(SteadyClock::now());
      Batch* const batch = lane_->Poll();
      if (batch == nullptr) continue;
      ++back;
      answered += batch->status.ok() ? 1 : 0;
      batch->Complete(batch->status, SteadyClock::now());
    }
    return answered;
  }

  std::unique_ptr<FaultPlan> plan_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<DeviceGroup> group_;
  std::unique_ptr<Lane> lane_;
};

TEST_F(DeviceGroupTest, ALostDeviceLeavesAllOthersServing) {
  for (const std::uint32_t count : {2u, 3u, 8u, 16u}) {
    SCOPED_TRACE(count);
    const std::uint32_t lost = count / 2;
    Make(count, {{Kind::kSticky, 2, Nanoseconds(0), lost}});
    EXPECT_THAT(executor_->devices(), ::testing::Each(::testing::EndsWith(", 1 threads")));
    EXPECT_EQ(RunSideBySide(count), count);
    EXPECT_FALSE(group_->devices().degraded());
    EXPECT_EQ(RunSideBySide(count), count - 1);
    EXPECT_TRUE(Run().ok());  // once another has passed its test
    while (group_->devices().testing()) std::this_thread::yield();
    std::vector<std::uint64_t> before;
    for (std::uint32_t device = 0; device < count; ++device) before.push_back(plan_->LaunchesOf(device));
    EXPECT_EQ(RunSideBySide(2 * (count - 1)), 2 * (count - 1));
    for (std::uint32_t device = 0; device < count; ++device) {
      EXPECT_EQ(plan_->LaunchesOf(device) - before[device], device == lost ? 0u : 2u) << device;
      EXPECT_EQ(group_->devices().state(device), device == lost ? Devices::State::kLost : Devices::State::kServing);
    }
    EXPECT_TRUE(group_->devices().degraded());
    EXPECT_TRUE(group_->health().ok() && group_->usable());
  }
}

// What took the first device took the others, too: their test says so, and no request has to.
TEST_F(DeviceGroupTest, OthersThatFailTheirTestAreLostAsWell) {
  Make(3,
       {{Kind::kSticky, 1, Nanoseconds(0), 0},
        {Kind::kError, 1, Nanoseconds(0), 1},
        {Kind::kHang, 1, Nanoseconds(0), 2}},
       {.batch_timeout = std::chrono::milliseconds(300)});
  EXPECT_TRUE(absl::IsInternal(Run()));
  EXPECT_TRUE(absl::IsUnavailable(Run()));  // it waited for the tests
  EXPECT_FALSE(group_->usable());
  EXPECT_THAT(std::string(group_->health().message()), HasSubstr("illegal address"));
  EXPECT_THAT(group_->devices().views()[1].reason, HasSubstr("after another device was lost: fault: a launch failed"));
  EXPECT_THAT(group_->devices().views()[2].reason, HasSubstr("no answer"));
}

TEST_F(DeviceGroupTest, TheOnlyDeviceIsTheLast) {
  Make(1, {{Kind::kSticky, 2}});
  EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(absl::IsInternal(Run()));
  EXPECT_TRUE(absl::IsUnavailable(Run()));
  EXPECT_FALSE(group_->health().ok());
  EXPECT_FALSE(group_->usable());
}

TEST_F(DeviceGroupTest, LeavesWhenTheLargestRequestFindsNoRoomAnyMore) {
  Make(2, {{Kind::kSticky, 1, Nanoseconds(0), 0}}, {.largest_request_bytes = kArenaBytes});
  EXPECT_TRUE(group_->health().ok());
  EXPECT_TRUE(absl::IsInternal(Run()));
  EXPECT_TRUE(Run().ok());
  EXPECT_THAT(std::string(group_->health().message()), HasSubstr("the largest request needs 1048576"));
}

// The server ends while the other device's test is under way and would go on for ten seconds.
TEST_F(DeviceGroupTest, EndsInTheMiddleOfATest) {
  Make(2, {{Kind::kSticky, 1, Nanoseconds(0), 0}, {Kind::kHang, 1, Nanoseconds(0), 1}},
       {.batch_timeout = std::chrono::hours(1)});
  EXPECT_TRUE(absl::IsInternal(Run()));
  const TimePoint begin = SteadyClock::now();
  while (plan_->LaunchesOf(1) == 0) std::this_thread::yield();
  lane_.reset();
  group_.reset();
  EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(9));
}

// A process that was stopped for an hour, or whose clock jumped, has not seen its device hang.
TEST_F(DeviceGroupTest, AnHourWithoutSweepsIsNobodysFault) {
  Make(1, {{Kind::kHang, 1}}, {.batch_timeout = std::chrono::minutes(1)});
  testing::TestRequest request(1, 8, 1);
  Batch batch;
  const TimePoint now = SteadyClock::now();
  Launch(&request, &batch, now);
  const TimePoint later = now + std::chrono::hours(1);
  for (int second = 0; second <= 30; ++second) group_->Sweep(later + std::chrono::seconds(second));
  auto* const watched = dynamic_cast<WatchedLane*>(lane_.get());
  ASSERT_NE(watched, nullptr);  // one device: nothing stands between
  EXPECT_FALSE(watched->CheckOverdue(later + std::chrono::seconds(59)));
  EXPECT_TRUE(watched->CheckOverdue(later + std::chrono::seconds(61)));
}

}  // namespace
}  // namespace softmax::server
