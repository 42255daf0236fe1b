#pragma once

#include <absl/status/status.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/softmax_client/options.h"

namespace softmax::client {

// Counts for ClientStats. Thread-safe; a reading taken while calls end may be between two of one call's counts.
class Counters {
 public:
  void AttemptEnded(absl::StatusCode code, bool is_retry) {
    Add(attempts_by_code_[Index(code)]);
    if (is_retry) Add(retries_);
  }
  void CallEnded(absl::StatusCode code, bool throttled) {
    Add(calls_by_code_[Index(code)]);
    if (throttled) Add(throttled_);
  }

  ClientStats Read() const {
    ClientStats stats;
    for (std::size_t i = 0; i < stats.calls_by_code.size(); ++i) {
      stats.calls += stats.calls_by_code[i] = calls_by_code_[i].load(std::memory_order_relaxed);
      stats.attempts += stats.attempts_by_code[i] = attempts_by_code_[i].load(std::memory_order_relaxed);
    }
    stats.retries = retries_.load(std::memory_order_relaxed);
    stats.throttled = throttled_.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  using Count = std::atomic<std::uint64_t>;
  static void Add(Count& count) { count.fetch_add(1, std::memory_order_relaxed); }
  // A code that gRPC does not define counts as UNKNOWN.
  static std::size_t Index(absl::StatusCode code) {
    const int number = static_cast<int>(code);
    return static_cast<std::size_t>(number >= 0 && number <= 16 ? number : 2);
  }

  std::array<Count, 17> calls_by_code_ = {};
  std::array<Count, 17> attempts_by_code_ = {};
  Count retries_ = 0;
  Count throttled_ = 0;
};

}  // namespace softmax::client
