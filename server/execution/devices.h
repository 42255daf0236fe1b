#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "server/batching/lane.h"

namespace softmax::server {

// What a device that was lost may still write, and the lanes that belong to it: never freed and never touched again,
// not even when this goes or the process ends. Thread-safe.
class QuarantinedMemory {
 public:
  QuarantinedMemory();

  // None: of a batch whose tensors all lie in regions.
  void Keep(SpanRef span) ABSL_LOCKS_EXCLUDED(content_->mu);
  void Keep(std::unique_ptr<Lane> lane) ABSL_LOCKS_EXCLUDED(content_->mu);

  // The longest run of bytes without a kept span within the arena [begin, begin + bytes): no request above it will ever
  // find room again.
  std::uint64_t LargestRun(const std::byte* begin, std::uint64_t bytes) const ABSL_LOCKS_EXCLUDED(content_->mu);

 private:
  struct Content {
    Mutex mu;
    std::vector<SpanRef> spans ABSL_GUARDED_BY(mu);
    std::vector<std::unique_ptr<Lane>> lanes ABSL_GUARDED_BY(mu);
  };
  Content* const content_;  // reachable to the end of the process
};

// What a server's lanes know of their devices together: which serve and how much each has to do. Devices are numbered
// from 0 in the order of Executor::devices(). Thread-safe; outlives the lanes.
//
// A device serves until a lane loses it. The others then get no further batch until each has passed a self-test: what
// took the first may have broken the whole process.
class Devices {
 public:
  enum class State : std::uint8_t { kServing, kTesting, kLost };
  enum class Loss : std::uint8_t { kFailed, kHangs };  // kHangs: nothing of it may be freed, for that could wait for it
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct View {
    std::string name;
    State state = State::kServing;
    std::string reason;  // why it was lost
    std::uint64_t bytes_in_flight = 0;
  };
  // A device to be tested, and how many were lost when that was asked for.
  struct Test {
    std::uint32_t device;
    std::uint32_t losses;
  };

  // `timeout`: how long a batch may run before its device counts as hanging; zero: for ever.
  Devices(const std::vector<std::string>& names, Nanoseconds timeout, Clock clock = SteadyClock::now);

  std::uint32_t count() const { return static_cast<std::uint32_t>(devices_.size()); }
  Nanoseconds timeout() const { return timeout_; }
  Clock clock() const { return clock_; }
  State state(std::uint32_t device) const { return devices_[device].state.load(std::memory_order_acquire); }

  // The serving device with the fewest bytes in flight, the first of `order` where several have; kNone: none serves.
  std::uint32_t Choose(const std::vector<std::uint32_t>& order) const;
  // Whether one may serve once it is tested.
  bool testing() const;
  void AddInFlight(std::uint32_t device, std::uint64_t bytes) {
    devices_[device].bytes_in_flight.fetch_add(bytes, std::memory_order_relaxed);
  }
  void RemoveInFlight(std::uint32_t device, std::uint64_t bytes) {
    devices_[device].bytes_in_flight.fetch_sub(bytes, std::memory_order_relaxed);
  }

  // The device is not to be used any more; the first reason stays.
  void Lose(std::uint32_t device, const std::string& reason, Loss loss) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for a device that has to be tested; none: `stop` was requested.
  std::optional<Test> WaitForTest(const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mu_);
  // Without waiting: a device that has to be tested, if there is one.
  std::optional<Test> NextTest() const ABSL_LOCKS_EXCLUDED(mu_);
  // The device serves again, unless another was lost since the test began.
  void Pass(const Test& test) ABSL_LOCKS_EXCLUDED(mu_);

  std::uint32_t lost() const { return lost_.load(); }
  bool degraded() const { return lost() > 0 && lost() < count(); }
  bool hangs(std::uint32_t device) const { return devices_[device].hangs.load(); }
  bool any_hangs() const;
  std::vector<View> views() const ABSL_LOCKS_EXCLUDED(mu_);
  // Not OK: no device is left, or the first was lost longer than `degraded_limit` ago.
  absl::Status health(TimePoint now, Nanoseconds degraded_limit) const ABSL_LOCKS_EXCLUDED(mu_);

  // The process did not run, or its clock jumped: batches that were launched before have their whole time from now on.
  void RestartPatience(TimePoint now) { patience_from_.store(now.time_since_epoch().count()); }
  std::int64_t patience_from() const { return patience_from_.load(std::memory_order_relaxed); }

  QuarantinedMemory& kept() { return kept_; }
  const QuarantinedMemory& kept() const { return kept_; }

 private:
  std::optional<Test> FindTest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // 128: neighbouring cache lines are fetched in pairs.
  struct alignas(128) Device {
    std::string name;
    std::atomic<std::uint64_t> bytes_in_flight{0};
    std::atomic<State> state{State::kServing};
    std::atomic<bool> hangs{false};
  };

  const Nanoseconds timeout_;
  const Clock clock_;
  std::vector<Device> devices_;
  QuarantinedMemory kept_;

  // Own synchronization.
  std::atomic<std::uint32_t> lost_{0};
  std::atomic<std::int64_t> patience_from_{0};

  mutable Mutex mu_;
  std::condition_variable_any changed_;                    // waits for a stop token, too
  std::vector<std::string> reasons_ ABSL_GUARDED_BY(mu_);  // why each device was lost
  TimePoint first_lost_at_ ABSL_GUARDED_BY(mu_);
  std::uint32_t first_lost_ ABSL_GUARDED_BY(mu_) = kNone;
};

}  // namespace softmax::server
