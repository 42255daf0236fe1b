#include "server/execution/watched_lane.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace softmax::server {

WatchedLane::WatchedLane(std::unique_ptr<Lane> lane, std::uint32_t device, Devices& devices)
    : lane_(std::move(lane)), device_(device), devices_(devices) {}

WatchedLane::~WatchedLane() {
  // Freeing memory that every device reaches may wait for every device, the hanging one included.
  if (devices_.any_hangs()) devices_.kept().Keep(std::move(lane_));
}

void WatchedLane::SetOldest() {
  oldest_.store(running_.empty() ? 0 : running_.front().since.time_since_epoch().count(), std::memory_order_relaxed);
}

void WatchedLane::Launch(Batch* batch) {
  if (devices_.state(device_) == Devices::State::kLost) {
    batch->status = absl::UnavailableError("the device was lost before the request ran; it may be sent again");
    failed_.push_back(batch);
    return;
  }
  running_.push_back({batch, devices_.clock()()});
  SetOldest();
  lane_->Launch(batch);
}

bool WatchedLane::Overdue(TimePoint now) const {
  const std::int64_t oldest = oldest_.load(std::memory_order_relaxed);
  return oldest != 0 && devices_.timeout().count() > 0 &&
         now.time_since_epoch().count() - std::max(oldest, devices_.patience_from()) > devices_.timeout().count();
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
  for (const Running& running : running_) {
    devices_.kept().Keep(running.batch->span());
    running.batch->status = absl::InternalError(what);
    failed_.push_back(running.batch);
  }
  running_.clear();
  SetOldest();
  devices_.Lose(device_, what, Devices::Loss::kHangs);
}

void WatchedLane::Remove(Batch* batch) {
  const auto it = std::find_if(running_.begin(), running_.end(),
                               [batch](const Running& running) { return running.batch == batch; });
  running_.erase(it);
  SetOldest();
}

Batch* WatchedLane::Poll() {
  if (Batch* const batch = TakeFront(failed_)) return batch;
  if (given_up_) return nullptr;
  if (Batch* const batch = lane_->Poll(); batch != nullptr) {
    Remove(batch);
    if (batch->status.ok()) [[likely]]
      return batch;
    devices_.kept().Keep(batch->span());
    devices_.Lose(device_, std::string(batch->status.message()), Devices::Loss::kFailed);
    return batch;
  }
  if (!overdue_.load(std::memory_order_relaxed)) return nullptr;
  overdue_.store(false);
  const TimePoint now = devices_.clock()();
  if (!Overdue(now)) return nullptr;  // it came back in between
  GiveUp(now);
  return Poll();
}

}  // namespace softmax::server
