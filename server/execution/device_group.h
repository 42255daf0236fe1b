#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "server/execution/devices.h"
#include "server/execution/executor.h"
#include "server/execution/faults.h"
#include "server/execution/watched_lane.h"

namespace softmax::server {

// The devices of one server, the lanes of its threads on them, and what happens when one is lost:
//   of several  its lanes are out; when the others have passed a self-test they serve on, for degraded_limit at most
//   the last    health() says so, and the process is to be replaced
// Outlives the lanes it made.
class DeviceGroup {
 public:
  struct Options {
    Nanoseconds batch_timeout{0};                           // a batch that runs longer: its device hangs; 0: never
    Nanoseconds degraded_limit = std::chrono::minutes(10);  // with fewer devices than at the start
    std::uint64_t arena_bytes = 0;                          // of Executor::memory()
    std::uint64_t largest_request_bytes = 0;                // what has to find room in one piece
  };

  // `executor` and `faults` (null: none) outlive this.
  DeviceGroup(Executor& executor, const Options& options, FaultPlan* faults);

  // The next queue thread's lane: on the one device, or on all of them; each has passed a self-test. `wake` is called
  // from any thread: Poll soon. At start, before Start.
  absl::StatusOr<std::unique_ptr<Lane>> CreateLane(const std::function<void()>& wake);
  // Once every lane is made.
  absl::Status Start();

  // Looks for batches that do not come back, and says what was lost. One thread, a few times a second.
  void Sweep(TimePoint now);

  // Not OK: the process should drain and be replaced. Any thread.
  absl::Status health() const;
  // Whether a device is left. Any thread.
  bool usable() const { return devices_.lost() < devices_.count(); }
  const Devices& devices() const { return devices_; }

 private:
  struct Watched {
    WatchedLane* lane;
    std::function<void()> wake;
  };
  absl::StatusOr<std::unique_ptr<Lane>> CreateTested(std::uint32_t device, std::function<void()> wake);
  void TellLosses();
  // After a loss the others are tested, each through a lane of its own, and serve again or are lost, too.
  void TestOthers(const std::stop_token& stop);

  Executor& executor_;
  const Options options_;
  FaultPlan* const faults_;
  Devices devices_;

  // The starting, then the sweeping thread's.
  std::vector<Watched> watched_;
  std::uint32_t threads_ = 0;
  TimePoint last_sweep_;
  std::vector<bool> told_;

  std::vector<std::unique_ptr<Lane>> test_lanes_;  // on each device, the tester's from Start; none: one device
  std::jthread tester_;                            // last: joins before the state above dies
};

}  // namespace softmax::server
