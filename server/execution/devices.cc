#include "server/execution/devices.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace softmax::server {

QuarantinedMemory::QuarantinedMemory() : content_(new Content) {
  static auto* const mu = new Mutex;
  static auto* const all = new std::vector<Content*>;
  MutexLock lock(*mu);
  all->push_back(content_);
}

void QuarantinedMemory::Keep(SpanRef span) {
  if (!span) return;
  MutexLock lock(content_->mu);
  content_->spans.push_back(std::move(span));
}

void QuarantinedMemory::Keep(std::unique_ptr<Lane> lane) {
  MutexLock lock(content_->mu);
  content_->lanes.push_back(std::move(lane));
}

std::uint64_t QuarantinedMemory::LargestRun(const std::byte* begin, std::uint64_t bytes) const {
  std::vector<std::pair<const std::byte*, const std::byte*>> kept;
  {
    MutexLock lock(content_->mu);
    for (const SpanRef& span : content_->spans) kept.emplace_back(span.address(), span.address() + span.size());
  }
  std::sort(kept.begin(), kept.end());
  std::uint64_t largest = 0;
  const std::byte* free_from = begin;
  for (const auto& [first, end] : kept) {
    largest = std::max(largest, static_cast<std::uint64_t>(first - free_from));
    free_from = end;
  }
  return std::max(largest, static_cast<std::uint64_t>(begin + bytes - free_from));
}

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
