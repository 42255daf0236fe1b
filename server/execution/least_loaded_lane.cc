#include "server/execution/least_loaded_lane.h"

#include <algorithm>

namespace softmax::server {

// False: no device serves, and one may soon.
bool LeastLoadedLane::TryLaunch(Batch* batch) {
  const bool is_bound = batch->device() != Region::kHost;
  std::uint32_t device = is_bound ? static_cast<std::uint32_t>(batch->device()) : devices_.Choose(order_);
  if (is_bound && devices_.state(device) == Devices::State::kTesting) return false;
  if (device == Devices::kNone) {
    if (devices_.testing()) return false;
    // A test may have ended between the two looks. Otherwise all are lost, and any lane says so.
    device = devices_.Choose(order_);
    if (device == Devices::kNone) device = order_.front();
  }
  devices_.AddInFlight(device, batch->bytes());
  ++lanes_[device].running;
  lanes_[device].lane->Launch(batch);
  return true;
}

void LeastLoadedLane::Launch(Batch* batch) {
  if (!held_.empty() || !TryLaunch(batch)) held_.push_back(batch);
}

Batch* LeastLoadedLane::Poll() {
  while (!held_.empty() && TryLaunch(held_.front())) held_.pop_front();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const std::uint32_t device = next_;
    next_ = next_ + 1 < lanes_.size() ? next_ + 1 : 0;
    OnDevice& on = lanes_[device];
    if (on.running == 0) continue;
    Batch* const batch = on.lane->Poll();
    if (batch == nullptr) continue;
    --on.running;
    devices_.RemoveInFlight(device, batch->bytes());
    // Another thread lost the device between the choice and the launch: the batch never ran, and one more may run it,
    // unless it is of the lost one's memory.
    if (absl::IsUnavailable(batch->status) && batch->device() == Region::kHost && devices_.lost() < devices_.count())
        [[unlikely]] {
      Launch(batch);
      continue;
    }
    return batch;
  }
  return nullptr;
}

bool LeastLoadedLane::needs_polling() const {
  return !held_.empty() || std::any_of(lanes_.begin(), lanes_.end(),
                                       [](const OnDevice& on) { return on.running > 0 && on.lane->needs_polling(); });
}

}  // namespace softmax::server
