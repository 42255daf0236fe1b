#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace softmax::kernels::bench {

// Runs one function on a fixed number of threads at a time; the caller is one of them, the others are pinned to cores
// of their own. Threads that wait keep looking for a while before they sleep, as those of OpenMP do: waking one takes
// longer than a small softmax.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(i) for i from 0 to threads - 1, each on a thread of its own, and returns when all have returned.
  void Run(const std::function<void(int)>& task);

 private:
  void Work(int index);

  const std::function<void(int)>* task_ = nullptr;  // published by round_
  std::atomic<unsigned> round_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};  // published by round_
  std::vector<std::thread> workers_;
};

}  // namespace softmax::kernels::bench
