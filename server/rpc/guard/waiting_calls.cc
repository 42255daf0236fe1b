#include "server/rpc/guard/waiting_calls.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace softmax::server {

void WaitingCalls::SetLimits(const Limits& limits) {
  MutexLock lock(mu_);
  timeout_ = limits.timeout;
  max_.store(limits.max, std::memory_order_relaxed);
  share_.store(limits.share, std::memory_order_relaxed);
}

void WaitingCalls::Enter(Connection* connection, std::function<void()> end) {
  MutexLock lock(mu_);
  connection->brought.store(TimePoint::min());
  connection->end = std::move(end);
}

void WaitingCalls::Drop(Connection* connection) {
  connection->end = nullptr;
  if (connection->is_listed.exchange(false)) std::erase(connections_, connection);
  ended_ += connection->calls.exchange(0, std::memory_order_relaxed);
}

void WaitingCalls::Leave(Connection* connection) {
  MutexLock lock(mu_);
  Drop(connection);
}

bool WaitingCalls::Set(Connection* connection, std::int64_t calls, bool brings) {
  const std::int64_t before = connection->calls.load(std::memory_order_relaxed);
  if (calls > 0 && (before == 0 || brings)) {
    const TimePoint now = SteadyClock::now();
    connection->idle_since.store(now, std::memory_order_relaxed);
    if (brings) connection->brought.store(now, std::memory_order_relaxed);
  }
  if (calls == before) return true;
  Change(connection, calls);
  if (calls < before) return true;
  if (!connection->is_listed.load(std::memory_order_relaxed)) {
    MutexLock lock(mu_);
    if (connection->end == nullptr) {
      ended_ += connection->calls.exchange(0, std::memory_order_relaxed);
    } else if (!connection->is_listed.exchange(true)) {
      connections_.push_back(connection);
    }
  }
  const std::int64_t max = max_.load(std::memory_order_relaxed);
  const std::int64_t all = total();
  if (all <= max || calls <= share_.load(std::memory_order_relaxed)) return true;
  return all <= 2 * max && SteadyClock::now() - kBringing < connection->brought.load(std::memory_order_relaxed);
}

void WaitingCalls::Sweep(TimePoint now) {
  MutexLock lock(mu_);
  const double passed = std::chrono::duration<double>(now - std::exchange(forgot_, now)).count();
  const auto forgotten = std::min(ended_, static_cast<std::int64_t>(passed * kForgottenPerSecond));
  ended_ -= forgotten;
  total_.fetch_sub(forgotten, std::memory_order_relaxed);

  const std::int64_t most = max_.load(std::memory_order_relaxed) / 2;
  if (total() <= most) return;
  std::vector<std::pair<TimePoint, Connection*>> idle;
  for (Connection* const connection : connections_) {
    const TimePoint since = connection->idle_since.load(std::memory_order_relaxed);
    if (connection->calls.load(std::memory_order_relaxed) > share_.load(std::memory_order_relaxed) &&
        now - timeout_ > since) {
      idle.emplace_back(since, connection);
    }
  }
  std::sort(idle.begin(), idle.end());
  for (const auto& [since, connection] : idle) {
    if (total() - ended_ <= most) return;
    std::exchange(connection->end, nullptr)();
    Drop(connection);
  }
}

}  // namespace softmax::server
