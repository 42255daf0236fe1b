#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/clock.h"

namespace softmax::server {

// How long a thread that polls for batches may sleep before it looks again, by what batches took before. A batch that
// takes long costs no processor time until it is nearly due, and then a look now and then: each comes so soon that the
// answer is late by a sixteenth at most. Batches that take less are polled for without a pause, for a sleep takes tens
// of microseconds where the machine is virtual. One thread's.
class FinishForecast {
 public:
  // What a batch of fewer bytes takes says little about larger ones, and it is never slept for.
  static constexpr std::uint64_t kFewestBytes = 256u << 10;
  // Batches that are due sooner after their launch are not slept for.
  static constexpr Nanoseconds kShortest{100'000};
  static constexpr Nanoseconds kLongestNap{1'000'000};

  // A batch of `bytes` was seen to have finished so long after its launch. `at_waking`: by the first look after a nap,
  // so that it may have finished sooner.
  void Finished(std::uint64_t bytes, Nanoseconds execution, bool at_waking) {
    if (bytes < kFewestBytes) return;
    double rate = static_cast<double>(execution.count()) / static_cast<double>(bytes);
    if (at_waking) rate *= kSooner;
    if (ns_per_byte_ == 0) {
      ns_per_byte_ = rate;
    } else {  // what has become quicker is found out sooner
      ns_per_byte_ += (rate < ns_per_byte_ ? 1.0 / 2 : 1.0 / 8) * (rate - ns_per_byte_);
    }
  }

  // For a batch of `bytes` that was launched so long ago and has not finished; zero: poll.
  Nanoseconds NapFor(std::uint64_t bytes, Nanoseconds elapsed) const {
    if (bytes < kFewestBytes) return Nanoseconds(0);
    const double due = ns_per_byte_ * static_cast<double>(bytes);
    if (due < static_cast<double>(kShortest.count())) return Nanoseconds(0);
    const double left = kSooner * due - static_cast<double>(elapsed.count());
    const double nap = std::max(left, due / 16);
    return std::min(kLongestNap, Nanoseconds(static_cast<std::int64_t>(std::min(nap, 1e9))));
  }

 private:
  static constexpr double kSooner = 7.0 / 8;

  double ns_per_byte_ = 0;  // 0: unknown
};

}  // namespace softmax::server
