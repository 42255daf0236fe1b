#include "server/execution/faulty_lane.h"

namespace softmax::server {

void FaultyLane::Launch(Batch* batch) {
  switch (plan_.NextLaunch(device_)) {
    case FaultPlan::Launch::kRuns:
      return lane_->Launch(batch);
    case FaultPlan::Launch::kHangs:
      return;  // nobody sees it again
    case FaultPlan::Launch::kRefused:
      batch->status = absl::InternalError("fault: a launch failed");
      break;
    case FaultPlan::Launch::kCrashes:
      batch->status = absl::InternalError("fault: a kernel ran into an illegal address");
      break;
  }
  failed_.push_back(batch);
}

Batch* FaultyLane::Poll() {
  if (!failed_.empty()) {
    Batch* const batch = failed_.front();
    failed_.pop_front();
    return batch;
  }
  if (delay_.count() == 0) return lane_->Poll();
  if (Batch* const batch = lane_->Poll(); batch != nullptr) late_.push_back({batch, SteadyClock::now()});
  if (late_.empty() || SteadyClock::now() - late_.front().finished < delay_) return nullptr;
  Batch* const batch = late_.front().batch;
  late_.pop_front();
  return batch;
}

}  // namespace softmax::server
