#include "server/execution/watched_lane.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <vector>

namespace softmax::server {
namespace {

// What a hanging device may still write, and the lanes that hang: reachable to the end, and never touched.
struct Given {
  Mutex mu;
  std::vector<SpanRef> spans ABSL_GUARDED_BY(mu);
  std::vector<std::unique_ptr<Lane>> lanes ABSL_GUARDED_BY(mu);
};

Given& GivenUp() {
  static auto* const given = new Given;
  return *given;
}

}  // namespace

void LaneWatch::Fail(const std::string& what) {
  MutexLock lock(mu_);
  if (status_.ok()) status_ = absl::InternalError(what);
}

absl::Status LaneWatch::health() const {
  MutexLock lock(mu_);
  return status_;
}

WatchedLane::WatchedLane(std::unique_ptr<Lane> lane, LaneWatch& watch) : lane_(std::move(lane)), watch_(watch) {}

WatchedLane::~WatchedLane() {
  if (!given_up_) return;
  Given& given = GivenUp();
  MutexLock lock(given.mu);
  given.lanes.push_back(std::move(lane_));
}

bool WatchedLane::needs_polling() const {
  return lane_->needs_polling() || watch_.faults().kind == LaneFaults::Kind::kLate;
}

void WatchedLane::SetOldest() {
  oldest_.store(running_.empty() ? 0 : running_.front().since.time_since_epoch().count(), std::memory_order_relaxed);
}

void WatchedLane::Fail(Batch* batch, const std::string& what) {
  batch->status = absl::InternalError(what);
  watch_.Fail(what);
  failed_.push_back(batch);
}

void WatchedLane::Launch(Batch* batch) {
  if (given_up_) return Fail(batch, "the device was given up");
  const LaneFaults& faults = watch_.faults();
  if (faults.kind != LaneFaults::Kind::kNone) {
    const std::uint64_t number = watch_.CountLaunch();
    if (faults.kind == LaneFaults::Kind::kError && number == faults.launch)
      return Fail(batch, "fault: a launch failed");
    hanging_ = hanging_ || (faults.kind == LaneFaults::Kind::kHang && number >= faults.launch);
  }
  running_.push_back({batch, SteadyClock::now()});
  SetOldest();
  if (!hanging_) lane_->Launch(batch);
}

bool WatchedLane::Overdue(TimePoint now) const {
  const std::int64_t oldest = oldest_.load(std::memory_order_relaxed);
  return oldest != 0 && watch_.timeout().count() > 0 &&
         now.time_since_epoch().count() - oldest > watch_.timeout().count();
}

bool WatchedLane::CheckOverdue(TimePoint now) {
  if (!Overdue(now)) return false;
  overdue_.store(true);
  return true;
}

void WatchedLane::GiveUp(TimePoint now) {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - running_.front().since).count();
  const std::string what = absl::StrCat("a device hangs: a batch has not come back for ", waited, " ms");
  given_up_ = true;
  watch_.SetHangs();
  Given& given = GivenUp();
  MutexLock lock(given.mu);
  for (const Running& running : running_) {
    given.spans.push_back(running.batch->span());
    Fail(running.batch, what);
  }
  running_.clear();
  SetOldest();
}

// The batch, which has finished, or null when a fault keeps it.
Batch* WatchedLane::Take(Batch* batch) {
  const auto it = std::find_if(running_.begin(), running_.end(),
                               [batch](const Running& running) { return running.batch == batch; });
  running_.erase(it);
  SetOldest();
  if (watch_.faults().kind != LaneFaults::Kind::kLate) return batch;
  late_.push_back({batch, SteadyClock::now()});
  return nullptr;
}

Batch* WatchedLane::Poll() {
  if (!failed_.empty()) {
    Batch* const batch = failed_.front();
    failed_.pop_front();
    return batch;
  }
  if (given_up_) return nullptr;
  if (!late_.empty() && SteadyClock::now() - late_.front().since >= watch_.faults().delay) {
    Batch* const batch = late_.front().batch;
    late_.pop_front();
    return batch;
  }
  if (Batch* const batch = lane_->Poll(); batch != nullptr) return Take(batch);
  if (!overdue_.load(std::memory_order_relaxed)) return nullptr;
  overdue_.store(false);
  const TimePoint now = SteadyClock::now();
  if (!Overdue(now)) return nullptr;  // it came back in between
  GiveUp(now);
  return Poll();
}

}  // namespace softmax::server
