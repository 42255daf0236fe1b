#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/base/clock.h"

namespace softmax::server {

// As counters and histograms have it: a clock read on two cores may come out a little negative.
inline std::uint64_t CountOf(Nanoseconds time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}

// Written by one thread only; read by any.
class ThreadCounter {
 public:
  void Add(std::uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  std::uint64_t Get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace softmax::server
