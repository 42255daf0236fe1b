#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace softmax::server {

// Work that takes a queue thread too long and cannot be cut into slices (SlicedWork): reading a message of a million
// small fields. Threads of its own do it: a connection's one after another, connections in turn. Thread-safe.
class LongWork {
 public:
  explicit LongWork(std::uint32_t threads);
  ~LongWork();  // Stops.

  // `owner` tells connections apart. What is not begun at Stop is dropped.
  void Add(const void* owner, std::function<void()> work) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for what was begun.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  ConditionVariable changed_;
  std::map<const void*, std::deque<std::function<void()>>> queues_ ABSL_GUARDED_BY(mu_);  // of owners with work
  std::deque<const void*> turns_ ABSL_GUARDED_BY(mu_);  // those of them that nothing is done for, the next first
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace softmax::server
