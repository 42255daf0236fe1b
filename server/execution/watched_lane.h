#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/batching/lane.h"
#include "server/execution/lane_faults.h"

namespace softmax::server {

// What the lanes of a server know of their devices together. Thread-safe; outlives the lanes.
class LaneWatch {
 public:
  // `timeout`: how long a batch may run before its device counts as hanging; zero: for ever.
  LaneWatch(Nanoseconds timeout, const LaneFaults& faults) : timeout_(timeout), faults_(faults) {}

  Nanoseconds timeout() const { return timeout_; }
  const LaneFaults& faults() const { return faults_; }
  std::uint64_t CountLaunch() { return launches_.fetch_add(1) + 1; }

  // A device is not to be used any more; the first reason stays.
  void Fail(const std::string& what) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status health() const ABSL_LOCKS_EXCLUDED(mu_);
  // Whether some device may still write what it was given long ago: its memory must outlive it.
  bool hangs() const { return hangs_.load(); }
  void SetHangs() { hangs_.store(true); }

 private:
  const Nanoseconds timeout_;
  const LaneFaults faults_;
  std::atomic<std::uint64_t> launches_{0};
  std::atomic<bool> hangs_{false};
  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// A lane that is given up when a batch does not come back in time: its requests are answered with INTERNAL, new ones at
// once, and the process is to be replaced. A device that hangs may still write, so the batches' memory is never used
// again and the lane itself is never touched again, not even to free it. Carries the faults of tests, too.
class WatchedLane final : public Lane {
 public:
  WatchedLane(std::unique_ptr<Lane> lane, LaneWatch& watch);
  ~WatchedLane() override;

  void Launch(Batch* batch) override;
  Batch* Poll() override;
  bool needs_polling() const override;

  // Whether a batch runs for longer than it may; the shard then has to be woken to Poll. Any thread, a few times a
  // second.
  bool CheckOverdue(TimePoint now);

 private:
  struct Running {
    Batch* batch;
    TimePoint since;
  };
  void Fail(Batch* batch, const std::string& what);
  bool Overdue(TimePoint now) const;
  void GiveUp(TimePoint now);
  Batch* Take(Batch* batch);
  void SetOldest();

  std::unique_ptr<Lane> lane_;
  LaneWatch& watch_;
  std::deque<Running> running_;
  std::deque<Batch*> failed_;
  std::deque<Running> late_;  // finished, kept back by a fault
  bool hanging_ = false;      // by a fault
  bool given_up_ = false;
  std::atomic<bool> overdue_{false};     // seen from outside: Poll reads no clock
  std::atomic<std::int64_t> oldest_{0};  // launch of the oldest batch that runs, on SteadyClock; 0: none
};

}  // namespace softmax::server
