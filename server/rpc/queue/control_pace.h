#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "server/base/clock.h"

namespace softmax::server {

// How fast one queue thread answers what is not a tensor: health checks, GetServerInfo, reflection, unknown methods. A
// prober needs a few a second; whoever sends more waits, so that tensors do not wait for him. One thread.
class ControlPace {
 public:
  static constexpr int kCallsAStep = 4;
  static constexpr Nanoseconds kStep = std::chrono::milliseconds(1);

  // Offers one more such call to the server, or reads one more such question: now or when there is room.
  void Begin(std::function<void()> begin) {
    if (left_ > 0) {
      --left_;
      begin();
    } else {
      waiting_.push_back(std::move(begin));
    }
  }
  // Begins what waits and has room by now.
  void Advance(TimePoint now) {
    if (now < next_) return;
    next_ = now + kStep;
    left_ = kCallsAStep;
    std::vector<std::function<void()>> waiting = std::move(waiting_);
    waiting_.clear();
    for (std::function<void()>& begin : waiting) Begin(std::move(begin));
  }
  // When to call Advance; kNoDeadline: nothing waits.
  TimePoint next() const { return waiting_.empty() ? kNoDeadline : next_; }

 private:
  int left_ = kCallsAStep;
  TimePoint next_{};
  std::vector<std::function<void()>> waiting_;
};

}  // namespace softmax::server
