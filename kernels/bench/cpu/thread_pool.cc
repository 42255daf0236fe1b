#include "kernels/bench/cpu/thread_pool.h"

#include "kernels/bench/cpu/pin.h"

namespace softmax::kernels::bench {
namespace {

constexpr int kLooks = 20000;  // about a millisecond
constexpr int kLooksPerYield = 64;

// Returns when the value is no longer `old`.
template <typename T>
void WaitWhile(const std::atomic<T>& value, T old) {
  for (int look = 1; look <= kLooks; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
    if (look % kLooksPerYield == 0) std::this_thread::yield();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Work(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(const std::function<void(int)>& task) {
  if (workers_.empty()) return task(0);
  task_ = &task;
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  task(0);
  for (int busy = busy_.load(std::memory_order_acquire); busy != 0; busy = busy_.load(std::memory_order_acquire)) {
    WaitWhile(busy_, busy);
  }
}

void ThreadPool::Work(int index) {
  PinToCore(index);
  for (unsigned seen = 0;; ++seen) {
    WaitWhile(round_, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    (*task_)(index);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace softmax::kernels::bench
