#include "server/execution/devices.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>

namespace softmax::server {

Devices::Devices(const std::vector<std::string>& names, Nanoseconds timeout, Clock clock)
    : timeout_(timeout), clock_(clock), devices_(names.size()), reasons_(names.size()) {
  for (std::size_t i = 0; i < names.size(); ++i) devices_[i].name = names[i];
}

std::uint32_t Devices::Choose(const std::vector<std::uint32_t>& order) const {
  std::uint32_t best = kNone;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint32_t device : order) {
    if (state(device) != State::kServing) continue;
    const std::uint64_t bytes = devices_[device].bytes_in_flight.load(std::memory_order_relaxed);
    if (bytes >= least) continue;
    best = device;
    least = bytes;
  }
  return best;
}

bool Devices::testing() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const Device& device) { return device.state.load() == State::kTesting; });
}

void Devices::Lose(std::uint32_t device, const std::string& reason, Loss loss) {
  {
    MutexLock lock(mu_);
    Device& gone = devices_[device];
    if (loss == Loss::kHangs) gone.hangs.store(true);
    if (gone.state.load() == State::kLost) return;
    gone.state.store(State::kLost);
    reasons_[device] = reason;
    lost_.fetch_add(1);
    if (first_lost_ == kNone) {
      first_lost_ = device;
      first_lost_at_ = clock_();
    }
    for (Device& other : devices_) {
      if (other.state.load() == State::kServing) other.state.store(State::kTesting);
    }
  }
  changed_.notify_all();
}

std::optional<Devices::Test> Devices::FindTest() const {
  for (std::uint32_t i = 0; i < count(); ++i) {
    if (devices_[i].state.load() == State::kTesting) return Test{i, lost()};
  }
  return std::nullopt;
}

std::optional<Devices::Test> Devices::NextTest() const {
  MutexLock lock(mu_);
  return FindTest();
}

std::optional<Devices::Test> Devices::WaitForTest(const std::stop_token& stop) {
  MutexLock lock(mu_);
  std::optional<Test> test;
  changed_.wait(mu_, stop, [this, &test]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    test = FindTest();
    return test.has_value();
  });
  if (stop.stop_requested()) return std::nullopt;  // also where there is something to test
  return test;
}

void Devices::Pass(const Test& test) {
  MutexLock lock(mu_);
  Device& device = devices_[test.device];
  if (device.state.load() == State::kTesting && lost() == test.losses) device.state.store(State::kServing);
}

bool Devices::any_hangs() const {
  return std::any_of(devices_.begin(), devices_.end(), [](const Device& device) { return device.hangs.load(); });
}

std::vector<Devices::View> Devices::views() const {
  MutexLock lock(mu_);
  std::vector<View> views;
  for (std::uint32_t i = 0; i < count(); ++i) {
    const Device& device = devices_[i];
    views.push_back({device.name, device.state.load(), reasons_[i], device.bytes_in_flight.load()});
  }
  return views;
}

absl::Status Devices::health(TimePoint now, Nanoseconds degraded_limit) const {
  if (lost() == 0) return absl::OkStatus();
  MutexLock lock(mu_);
  const std::string& reason = reasons_[first_lost_];
  if (lost() == count()) return absl::InternalError(reason);
  if (now - first_lost_at_ < degraded_limit) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("device ", first_lost_, " (", devices_[first_lost_].name,
                                          ") was lost and degraded-limit is over: ", reason));
}

}  // namespace softmax::server
