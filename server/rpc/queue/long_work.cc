#include "server/rpc/queue/long_work.h"

#include <utility>

namespace softmax::server {

LongWork::LongWork(std::uint32_t threads) {
  for (std::uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

LongWork::~LongWork() { Stop(); }

void LongWork::Add(const void* owner, std::function<void()> work) {
  {
    MutexLock lock(mu_);
    std::deque<std::function<void()>>& queue = queues_[owner];
    if (queue.empty()) turns_.push_back(owner);
    queue.push_back(std::move(work));
  }
  changed_.notify_one();
}

void LongWork::Stop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

void LongWork::Run() {
  MutexLock lock(mu_);
  while (true) {
    while (!stopping_ && turns_.empty()) changed_.wait(mu_);
    if (stopping_) return;
    const void* const owner = turns_.front();
    turns_.pop_front();
    // It stays in its place meanwhile, so that the owner has no other turn.
    const std::function<void()> work = std::move(queues_[owner].front());
    mu_.unlock();
    work();
    mu_.lock();
    std::deque<std::function<void()>>& queue = queues_[owner];
    queue.pop_front();
    if (queue.empty()) {
      queues_.erase(owner);
    } else {
      turns_.push_back(owner);
      changed_.notify_one();
    }
  }
}

}  // namespace softmax::server
