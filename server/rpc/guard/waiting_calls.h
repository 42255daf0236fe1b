#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace softmax::server {

// Calls of all connections that wait for their client's first message. gRPC keeps some 11 KiB for each, and tells
// nobody of those of unary methods. With those of connections that have ended, which gRPC takes a while to forget.
//
// When there are too many, connections end that hold more than their share: those that open further calls, unless they
// bring messages, and those that have brought nothing for too long, the longest first. So neither a few streams that
// were opened long before they are used, nor a crowd of uploads that goes on, pays for somebody else's calls.
// Thread-safe.
class WaitingCalls {
 public:
  struct Limits {
    std::int64_t max = INT64_MAX / 2;  // above it nobody opens more who brings nothing; above twice as many, nobody
    std::int64_t share = 1;            // of a connection
    Nanoseconds timeout{0};            // for those that bring nothing, once half of `max` wait
  };
  // Who has brought bytes of a message within this time goes on.
  static constexpr Nanoseconds kBringing = std::chrono::seconds(1);
  // As many calls of ended connections does gRPC forget in a second at least.
  static constexpr std::int64_t kForgottenPerSecond = 4096;

  // One connection's part.
  struct Connection {
    std::atomic<std::int64_t> calls{0};
    std::atomic<TimePoint> brought{TimePoint::min()};     // when bytes of a message came
    std::atomic<TimePoint> idle_since{TimePoint::max()};  // the same, or when the first of `calls` was opened
    std::atomic<bool> is_listed{false};
    std::function<void()> end{};  // ends the connection; may not call back. Null: it has ended, or has not entered
  };

  void SetLimits(const Limits& limits) ABSL_LOCKS_EXCLUDED(mu_);

  // The connection begins. It stays valid until Leave.
  void Enter(Connection* connection, std::function<void()> end) ABSL_LOCKS_EXCLUDED(mu_);
  void Leave(Connection* connection) ABSL_LOCKS_EXCLUDED(mu_);
  // So many of its calls wait now; whether bytes of messages have come. False: these are too many, and the connection
  // has to end. After Leave, too: what arrived before its client's end may be read later.
  bool Set(Connection* connection, std::int64_t calls, bool brings) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends those that have brought nothing for too long. A few times a second.
  void Sweep(TimePoint now) ABSL_LOCKS_EXCLUDED(mu_);

  std::int64_t total() const { return total_.load(std::memory_order_relaxed); }

 private:
  void Change(Connection* connection, std::int64_t calls) {
    total_.fetch_add(calls - connection->calls.exchange(calls, std::memory_order_relaxed), std::memory_order_relaxed);
  }
  void Drop(Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<std::int64_t> total_{0};
  std::atomic<std::int64_t> max_{Limits().max};
  std::atomic<std::int64_t> share_{Limits().share};
  Mutex mu_;
  Nanoseconds timeout_ ABSL_GUARDED_BY(mu_){0};
  std::vector<Connection*> connections_ ABSL_GUARDED_BY(mu_);  // that had calls waiting once
  std::int64_t ended_ ABSL_GUARDED_BY(mu_) = 0;                // of total_: of connections that have ended
  TimePoint forgot_ ABSL_GUARDED_BY(mu_) = SteadyClock::now();
};

}  // namespace softmax::server
