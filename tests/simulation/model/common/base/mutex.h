#pragma once

#include <absl/base/thread_annotations.h>

#include <vector>

#include "tests/simulation/model/interleaver.h"

// In place of common/base/mutex.h in the models: whoever waits for it lets the others go on.
namespace softmax {

class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    simulation::Interleaver::WaitFor(&locked_);
    locked_ = true;
  }
  void unlock() ABSL_UNLOCK_FUNCTION() { locked_ = false; }

 private:
  bool locked_ = false;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_.lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

// Nobody is woken without a notice, and no time ever comes: what is to happen has to happen without.
class ConditionVariable {
 public:
  void wait(Mutex& mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    bool waits = true;
    waiting_.push_back(&waits);
    mu.unlock();
    simulation::Interleaver::WaitFor(&waits);
    mu.lock();
  }
  template <typename TimePoint>
  void wait_until(Mutex& mu, TimePoint /*time*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    wait(mu);
  }
  void notify_all() {
    simulation::Interleaver::Step();
    for (bool* waits : waiting_) *waits = false;
    waiting_.clear();
  }

 private:
  std::vector<bool*> waiting_;
};

}  // namespace softmax
