#pragma once

#include <absl/base/thread_annotations.h>

#include "tests/simulation/model/interleaver.h"

// In place of the server's in the models: whoever waits for it lets the others go on.
namespace softmax::server {

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

}  // namespace softmax::server
