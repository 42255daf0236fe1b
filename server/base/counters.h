#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
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

// A counter that many threads change all the time and somebody reads now and then: each thread adds to a stripe of its
// own, so that no cache line travels between cores (at 300,000 calls/s a shared one does, a million times a second).
// Sum() adds up the stripes. What one thread added and another took away meanwhile may be seen in part, but never as
// less than nothing: this counts things.
class StripedCounter {
 public:
  void Add(std::int64_t n) { stripes_[StripeOfThread()].value.fetch_add(n, std::memory_order_release); }

  std::int64_t Sum() const {
    std::int64_t sum = 0;
    for (const Stripe& stripe : stripes_) sum += stripe.value.load(std::memory_order_acquire);
    return std::max<std::int64_t>(sum, 0);
  }

 private:
  static constexpr std::size_t kStripes = 32;
  // 128: neighbouring cache lines are fetched in pairs.
  struct alignas(128) Stripe {
    std::atomic<std::int64_t> value{0};
  };

  static std::size_t StripeOfThread() {
    static std::atomic<std::size_t> next{0};
    static thread_local const std::size_t stripe = next.fetch_add(1, std::memory_order_relaxed) % kStripes;
    return stripe;
  }

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace softmax::server
