#pragma once

#include <deque>
#include <functional>
#include <map>

#include "common/base/clock.h"

namespace softmax::server {

// Work of a queue thread that would hold up its other calls if it were done at one go: texts to print, answers to copy.
// It is cut into steps, of which some are done between the thread's events; connections take turns. One thread.
class SlicedWork {
 public:
  // For this long at a time.
  static constexpr Nanoseconds kSlice = std::chrono::microseconds(500);

  // `step` does what takes some 50 us and says whether it was the last. `owner` tells connections apart.
  void Add(const void* owner, std::function<bool()> step) {
    std::deque<std::function<bool()>>& queue = queues_[owner];
    if (queue.empty()) turns_.push_back(owner);
    queue.push_back(std::move(step));
  }
  bool empty() const { return turns_.empty(); }

  // Does a slice. A step may add others.
  void Run() {
    const TimePoint until = SteadyClock::now() + kSlice;
    while (!turns_.empty()) {
      const void* const owner = turns_.front();
      turns_.pop_front();
      RunOne(owner);
      if (SteadyClock::now() >= until) return;
    }
  }

 private:
  void RunOne(const void* owner) {
    const auto it = queues_.find(owner);
    // It stays in its place meanwhile: what it adds for the same owner comes behind it.
    const std::function<bool()> step = std::move(it->second.front());
    if (step()) {
      it->second.pop_front();
    } else {
      it->second.front() = step;
    }
    if (it->second.empty()) {
      queues_.erase(it);
    } else {
      turns_.push_back(owner);
    }
  }

  std::map<const void*, std::deque<std::function<bool()>>> queues_;  // of owners with work
  std::deque<const void*> turns_;                                    // each of them once, the next first
};

}  // namespace softmax::server
