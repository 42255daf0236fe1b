#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "common/base/clock.h"
#include "server/batching/lane.h"
#include "server/execution/devices.h"

namespace softmax::server {

// A lane on one device that loses the device when a batch fails or does not come back in time. Such a batch is answered
// with INTERNAL: a caller who sent it again could bring down the next device with it. Batches launched afterwards are
// answered with UNAVAILABLE at once, for they never ran and may be sent elsewhere.
//
// A lost device may still write: the memory of what it was given and did not return is never used again, and the lane
// of one that hangs is never touched again, and then no lane is ever freed.
class WatchedLane final : public Lane {
 public:
  WatchedLane(std::unique_ptr<Lane> lane, std::uint32_t device, Devices& devices);
  ~WatchedLane() override;

  void Launch(Batch* batch) override;
  Batch* Poll() override;
  bool needs_polling() const override { return lane_->needs_polling(); }
  std::uint64_t gather_bytes() const override { return lane_->gather_bytes(); }
  bool RunsAtOnce(const Batch& batch) const override { return lane_->RunsAtOnce(batch); }

  // Whether a batch runs for longer than it may; the batcher then has to be woken to Poll. Any thread, a few times a
  // second.
  bool CheckOverdue(TimePoint now);

 private:
  struct Running {
    Batch* batch;
    TimePoint since;
  };
  bool Overdue(TimePoint now) const;
  void GiveUp(TimePoint now);
  void Remove(Batch* batch);
  void SetOldest();

  std::unique_ptr<Lane> lane_;
  const std::uint32_t device_;
  Devices& devices_;
  std::deque<Running> running_;
  std::deque<Batch*> failed_;
  bool given_up_ = false;
  std::atomic<bool> overdue_{false};     // seen from outside: Poll reads no clock
  std::atomic<std::int64_t> oldest_{0};  // launch of the oldest batch that runs, on SteadyClock; 0: none
};

}  // namespace softmax::server
