#pragma once

#include <chrono>
#include <cstdint>

namespace softmax {

// All times inside the server are on the monotonic clock; gRPC deadlines are converted on arrival.
using SteadyClock = std::chrono::steady_clock;
using TimePoint = SteadyClock::time_point;
using Nanoseconds = std::chrono::nanoseconds;

// Where the time comes from: SteadyClock::now, or a test's own time. Batching and the watched lanes read no other.
using Clock = TimePoint (*)();

constexpr TimePoint kNoDeadline = TimePoint::max();

// The two together; the longest time there is, 292 years, or the shortest, where they are beyond it.
constexpr Nanoseconds Saturated(std::int64_t seconds, std::int64_t nanoseconds) {
  std::int64_t sum = 0;
  if (__builtin_mul_overflow(seconds, std::int64_t{1'000'000'000}, &sum) ||
      __builtin_add_overflow(sum, nanoseconds, &sum)) {
    return seconds < 0 ? Nanoseconds::min() : Nanoseconds::max();
  }
  return Nanoseconds(sum);
}

// `by` after `from`; the end of time, kNoDeadline, or its beginning, where that is beyond it.
constexpr TimePoint Later(TimePoint from, Nanoseconds by) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(from.time_since_epoch().count(), by.count(), &sum)) {
    return by < Nanoseconds::zero() ? TimePoint::min() : TimePoint::max();
  }
  return TimePoint(Nanoseconds(sum));
}

}  // namespace softmax
