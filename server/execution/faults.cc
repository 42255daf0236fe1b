#include "server/execution/faults.h"

#include <algorithm>

namespace softmax::server {
namespace {

bool IsFor(const LaunchFault& fault, std::uint32_t device) {
  return fault.device == LaunchFault::kAnyDevice || fault.device == device;
}

}  // namespace

FaultPlan::Launch FaultPlan::NextLaunch(std::uint32_t device) {
  Device& own = devices_[device % kMaxDevices];
  const std::uint64_t of_all = launches_.fetch_add(1) + 1;
  const std::uint64_t of_device = own.launches.fetch_add(1) + 1;
  if (own.stuck.load()) return Launch::kCrashes;
  Launch result = Launch::kRuns;
  for (const LaunchFault& fault : faults_.launches) {
    if (!IsFor(fault, device)) continue;
    const std::uint64_t number = fault.device == LaunchFault::kAnyDevice ? of_all : of_device;
    if (fault.kind == LaunchFault::Kind::kHang && number >= fault.launch) return Launch::kHangs;
    if (number != fault.launch) continue;
    if (fault.kind == LaunchFault::Kind::kError) result = Launch::kRefused;
    if (fault.kind == LaunchFault::Kind::kSticky) {
      own.stuck.store(true);
      result = Launch::kCrashes;
    }
  }
  return result;
}

Nanoseconds FaultPlan::DelayOf(std::uint32_t device) const {
  Nanoseconds delay{0};
  for (const LaunchFault& fault : faults_.launches) {
    if (fault.kind == LaunchFault::Kind::kLate && IsFor(fault, device)) delay = std::max(delay, fault.delay);
  }
  return delay;
}

bool FaultPlan::RefusesAllocation() {
  return faults_.allocation != 0 && allocations_.fetch_add(1) + 1 == faults_.allocation;
}

int FaultPlan::NextCall(const char* call) {
  int error = 0;
  for (std::size_t i = 0; i < faults_.calls.size(); ++i) {
    const CallFault& fault = faults_.calls[i];
    if (fault.call == call && calls_[i].fetch_add(1) + 1 == fault.number) error = fault.error;
  }
  return error;
}

}  // namespace softmax::server
