#include "server/execution/device_group.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "server/base/log.h"
#include "server/execution/faulty_lane.h"
#include "server/execution/least_loaded_lane.h"
#include "server/execution/self_test.h"

namespace softmax::server {
namespace {

// A sweep that comes so much later than the one before: the process was stopped, or the clock jumped. What was launched
// before may be well; it did not have the time that has passed.
constexpr Nanoseconds kMissedSweeps = std::chrono::seconds(1);

}  // namespace

DeviceGroup::DeviceGroup(Executor& executor, const Options& options, FaultPlan* faults)
    : executor_(executor), options_(options), faults_(faults), devices_(executor.devices(), options.batch_timeout) {
  told_.resize(devices_.count());
}

absl::StatusOr<std::unique_ptr<Lane>> DeviceGroup::CreateTested(std::uint32_t device, std::function<void()> wake) {
  absl::StatusOr<std::unique_ptr<Lane>> lane = executor_.CreateLane(device, std::move(wake));
  if (!lane.ok()) return lane.status();
  if (executor_.computes()) {
    if (absl::Status status = SelfTest(*lane, executor_.self_test_memory(device)); !status.ok()) return status;
  }
  if (faults_ != nullptr) return std::make_unique<FaultyLane>(std::move(*lane), device, *faults_);
  return lane;
}

absl::StatusOr<std::unique_ptr<Lane>> DeviceGroup::CreateLane(const std::function<void()>& wake) {
  const Topology::Home home = executor_.topology().HomeOf(threads_++);
  const VisitCores near(home.cores);  // the lanes' host memory, which this thread will poll
  std::vector<std::unique_ptr<Lane>> lanes;
  for (std::uint32_t device = 0; device < devices_.count(); ++device) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = CreateTested(device, wake);
    if (!lane.ok()) return lane.status();
    auto watched = std::make_unique<WatchedLane>(std::move(*lane), device, devices_);
    watched_.push_back({watched.get(), wake});
    lanes.push_back(std::move(watched));
  }
  if (lanes.size() == 1) return std::move(lanes[0]);
  return std::make_unique<LeastLoadedLane>(std::move(lanes), executor_.topology().DevicesFrom(home.device), devices_);
}

absl::Status DeviceGroup::Start() {
  last_sweep_ = devices_.clock()();
  if (devices_.count() == 1) return absl::OkStatus();
  for (std::uint32_t device = 0; device < devices_.count(); ++device) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = CreateTested(device, [] {});
    if (!lane.ok()) return lane.status();
    test_lanes_.push_back(std::move(*lane));
  }
  tester_ = std::jthread([this](const std::stop_token& stop) { TestOthers(stop); });
  return absl::OkStatus();
}

void DeviceGroup::TestOthers(const std::stop_token& stop) {
  const Nanoseconds limit =
      options_.batch_timeout.count() > 0 ? std::min(options_.batch_timeout, kSelfTestLimit) : kSelfTestLimit;
  while (const std::optional<Devices::Test> test = devices_.WaitForTest(stop)) {
    const std::uint32_t device = test->device;
    absl::Status status;
    if (executor_.computes()) status = SelfTest(test_lanes_[device], executor_.self_test_memory(device), limit, stop);
    if (status.ok()) {
      devices_.Pass(*test);
    } else if (!stop.stop_requested()) {
      devices_.Lose(device, absl::StrCat("after another device was lost: ", std::string(status.message())),
                    absl::IsDeadlineExceeded(status) ? Devices::Loss::kHangs : Devices::Loss::kFailed);
    }
  }
  // As the lanes of the queue threads: freeing one may wait for the device that hangs.
  if (!devices_.any_hangs()) return;
  for (std::unique_ptr<Lane>& lane : test_lanes_) devices_.kept().Keep(std::move(lane));
}

void DeviceGroup::Sweep(TimePoint now) {
  if (now - last_sweep_ > kMissedSweeps) devices_.RestartPatience(now);
  last_sweep_ = now;
  for (const Watched& watched : watched_)
    if (watched.lane->CheckOverdue(now)) watched.wake();
  if (devices_.lost() > 0) TellLosses();
}

void DeviceGroup::TellLosses() {
  const std::vector<Devices::View> views = devices_.views();
  for (std::uint32_t device = 0; device < views.size(); ++device) {
    if (views[device].state != Devices::State::kLost || told_[device]) continue;
    told_[device] = true;
    LogError("device ", device, " (", views[device].name, ") is lost, ", devices_.count() - devices_.lost(), " of ",
             devices_.count(), " are left: ", views[device].reason);
  }
}

absl::Status DeviceGroup::health() const {
  if (devices_.lost() == 0) return absl::OkStatus();
  if (absl::Status status = devices_.health(devices_.clock()(), options_.degraded_limit); !status.ok()) return status;
  const std::uint64_t room = devices_.kept().LargestRun(executor_.memory(), options_.arena_bytes);
  if (room >= options_.largest_request_bytes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a device was lost, and what it may still write leaves ", room,
                                          " bytes of the arena in one piece; the largest request needs ",
                                          options_.largest_request_bytes));
}

}  // namespace softmax::server
