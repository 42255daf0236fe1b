// Three to sixteen devices of one process: which of them a batch runs on, and whose share is how large.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "server/execution/least_loaded_lane.h"
#include "tests/server/execution/lane_fixture.h"

namespace softmax::server {
namespace {

using Counts = std::vector<std::size_t>;

class ManyDevicesTest : public testing::LaneFixture, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  // A queue thread: its lane, and the puppet of it on each device.
  struct Thread {
    std::unique_ptr<LeastLoadedLane> lane;
    std::vector<testing::PuppetLane*> puppets;
  };

  Thread NewThread(std::uint32_t home) {
    Thread thread;
    std::vector<std::unique_ptr<Lane>> lanes;
    for (std::uint32_t device = 0; device < count_; ++device) {
      lanes.push_back(std::make_unique<testing::PuppetLane>());
      thread.puppets.push_back(static_cast<testing::PuppetLane*>(lanes.back().get()));
    }
    thread.lane = std::make_unique<LeastLoadedLane>(std::move(lanes), topology_.DevicesFrom(home), devices_);
    return thread;
  }
  std::size_t RunningOn(const std::vector<Thread>& threads, std::uint32_t device) {
    return std::accumulate(threads.begin(), threads.end(), std::size_t{0}, [&](std::size_t sum, const Thread& thread) {
      return sum + thread.puppets[device]->running.size();
    });
  }
  Counts Running(const Thread& thread) {
    Counts counts;
    for (const testing::PuppetLane* puppet : thread.puppets) counts.push_back(puppet->running.size());
    return counts;
  }
  void Launch(const Thread& thread) {
    launched_.push_back(Fill());
    thread.lane->Launch(&launched_.back()->batch);
  }
  // Finishes the oldest batch of a thread's on this device; false: it has none.
  bool FinishOne(const Thread& thread, std::uint32_t device) {
    if (thread.puppets[device]->running.empty()) return false;
    thread.puppets[device]->FinishOne();
    EXPECT_TRUE(Complete(thread.lane->Poll()).ok());
    return true;
  }
  void FinishAll(const Thread& thread) {
    for (std::uint32_t device = 0; device < count_; ++device) {
      while (FinishOne(thread, device)) continue;
    }
  }

  const std::uint32_t count_ = GetParam();
  // The first half is near core 0, the rest near core 1.
  const Topology topology_{[this] {
    std::vector<CoreSet> near(count_);
    for (std::uint32_t device = 0; device < count_; ++device) near[device].set(device < count_ / 2 ? 0 : 1);
    return near;
  }()};
  Devices devices_{std::vector<std::string>(count_, "device"), Nanoseconds(0)};
  std::vector<std::unique_ptr<Launched>> launched_;
};

INSTANTIATE_TEST_SUITE_P(Counts, ManyDevicesTest, ::testing::Values(3, 4, 8, 16));

TEST_P(ManyDevicesTest, HostMemoryIsReadByTheNearestOfThoseWithTheLeastToDo) {
  for (std::uint32_t home = 0; home < count_; ++home) {
    const Thread thread = NewThread(home);
    for (const std::uint32_t nearest : topology_.DevicesFrom(home)) {
      Launch(thread);
      EXPECT_EQ(thread.puppets[nearest]->running.size(), 1u) << "home " << home << ", nearest " << nearest;
    }
    const std::uint32_t free = count_ - 1 - home;
    FinishOne(thread, free);
    Launch(thread);
    EXPECT_EQ(Running(thread), Counts(count_, 1)) << "the only idle one takes it, near or not";
    FinishAll(thread);
  }
}

// Devices that finish a batch a turn get equal shares, and one that takes four turns a quarter of one.
TEST_P(ManyDevicesTest, SharesAreAsDevicesFinish) {
  constexpr int kTurns = 400;
  std::vector<Thread> threads;
  for (std::uint32_t home = 0; home < count_; ++home) threads.push_back(NewThread(home / 2));  // homes of half of them
  std::mt19937 random(1);
  Counts finished(count_);
  for (int turn = 0; turn < kTurns; ++turn) {
    // As much as keeps all of them busy, by threads in any order.
    for (std::uint32_t running = 0; running < 2 * count_;) {
      running = 0;
      for (std::uint32_t device = 0; device < count_; ++device) running += RunningOn(threads, device);
      if (running < 2 * count_) Launch(threads[random() % threads.size()]);
    }
    for (std::uint32_t device = 0; device < count_; ++device) {
      if (device == 0 && turn % 4 != 0) continue;
      const std::uint32_t first = random() % threads.size();
      for (std::uint32_t i = 0; i < threads.size(); ++i) {
        if (!FinishOne(threads[(first + i) % threads.size()], device)) continue;
        ++finished[device];
        break;
      }
    }
  }
  EXPECT_EQ(finished[0], kTurns / 4u);
  for (std::uint32_t device = 1; device < count_; ++device) EXPECT_EQ(finished[device], std::size_t{kTurns}) << device;
  for (const Thread& thread : threads) FinishAll(thread);
  for (const Devices::View& view : devices_.views()) EXPECT_EQ(view.bytes_in_flight, 0u);
}

}  // namespace
}  // namespace softmax::server
