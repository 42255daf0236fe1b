#include "server/execution/faulty_lane.h"

#include <algorithm>

namespace softmax::server {
namespace {

// A longer gap between two polls means that the process was stopped; a busy machine alone does not cause one.
constexpr Nanoseconds kLongestGap = std::chrono::milliseconds(100);

}  // namespace

void FaultyLane::Launch(Batch* batch) {
  switch (plan_.NextLaunch(device_)) {
    case FaultPlan::Launch::kRuns:
      return lane_->Launch(batch);
    case FaultPlan::Launch::kHangs:
      return;  // Poll never returns it
    case FaultPlan::Launch::kRefused:
      batch->status = absl::InternalError("fault: a launch failed");
      break;
    case FaultPlan::Launch::kCrashes:
      batch->status = absl::InternalError("fault: a kernel ran into an illegal address");
      break;
  }
  failed_.push_back(batch);
}

void FaultyLane::CountTime() {
  const TimePoint now = SteadyClock::now();
  ran_ += std::min<Nanoseconds>(now - last_poll_, kLongestGap);
  last_poll_ = now;
}

Batch* FaultyLane::Poll() {
  if (Batch* const batch = TakeFront(failed_)) return batch;
  if (delay_.count() == 0) return lane_->Poll();
  CountTime();
  if (Batch* const batch = lane_->Poll(); batch != nullptr) late_.push_back({batch, ran_ + delay_});
  if (late_.empty() || ran_ < late_.front().due) return nullptr;
  Batch* const batch = late_.front().batch;
  late_.pop_front();
  return batch;
}

}  // namespace softmax::server
