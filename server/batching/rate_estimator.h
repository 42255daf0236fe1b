#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/clock.h"

namespace softmax::server {

// How long a unit of cost takes a thread that has as much to do as it can do. Cost is in bytes, as the caller counts
// them. One thread's.
//
// The rate is measured over stretches without a pause, and smoothed over eight of them. What is in progress at a
// stretch's end counts for the next, although some of it was done in this one: so a stretch lasts until it is no more
// than what has ended. Otherwise small requests beside one that takes a second would make the thread look slow.
class RateEstimator {
 public:
  // In a shorter stretch, waiting for the device alone counts for too much.
  static constexpr std::uint64_t kShortestStretch = 256u << 10;
  static constexpr std::uint64_t kLongestStretch = 2u << 20;

  void Begin(std::uint64_t cost, TimePoint now) {
    if (in_progress_ == 0) {  // idle until now
      stretch_begin_ = now;
      done_ = 0;
    }
    in_progress_ += cost;
  }

  // Cost that ended without having run counts for nothing. True: a stretch is over, to be measured now.
  [[nodiscard]] bool End(std::uint64_t cost, bool ran) {
    in_progress_ -= cost;
    if (ran) done_ += cost;
    return done_ >= std::max(kLongestStretch, in_progress_) || (in_progress_ == 0 && done_ >= kShortestStretch);
  }

  // Only after End said so. A stretch in which nothing waited (`saturated` is false) shows how much was asked for and
  // not how much can be done, unless that was more than has been known.
  void Measure(bool saturated, TimePoint now) {
    const double rate = static_cast<double>((now - stretch_begin_).count()) / static_cast<double>(done_);
    if (ns_per_cost_ == 0) {
      ns_per_cost_ = rate;
    } else if (saturated || rate < ns_per_cost_) {
      ns_per_cost_ += kNewWeight * (rate - ns_per_cost_);
    }
    stretch_begin_ = now;
    done_ = 0;
  }

  // Begun and not ended.
  std::uint64_t in_progress() const { return in_progress_; }
  // 0 until a stretch has been measured.
  double NanosecondsFor(std::uint64_t cost) const { return static_cast<double>(cost) * ns_per_cost_; }

 private:
  static constexpr double kNewWeight = 1.0 / 8;

  std::uint64_t in_progress_ = 0;
  std::uint64_t done_ = 0;  // in this stretch
  TimePoint stretch_begin_{};
  double ns_per_cost_ = 0;
};

}  // namespace softmax::server
