#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <atomic>
#include <memory>

#include "common/base/mutex.h"
#include "server/rpc/queue/call.h"

namespace softmax::server {

// Makes a completion queue's thread return from its wait. Any thread may call Wake; wakes that come before the thread
// has seen the first are one. Close before the queue is shut down: an alarm on a dead queue aborts.
class Waker final : public Tag {
 public:
  explicit Waker(grpc::CompletionQueue* queue) : queue_(queue) {}

  void Wake() {
    if (pending_.exchange(true)) return;
    MutexLock lock(mu_);
    if (closed_) return;
    // A grpc::Alarm may be set once only, so each wake is a new one; the last one has been delivered by now.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), static_cast<Tag*>(this));
  }

  // Whether a wake-up has not arrived yet.
  bool pending() const { return pending_.load(); }

  void Close() {
    MutexLock lock(mu_);
    closed_ = true;
  }

  void Proceed(bool /*ok*/) override { pending_.store(false); }

 private:
  grpc::CompletionQueue* const queue_;
  std::atomic<bool> pending_{false};
  Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::server
