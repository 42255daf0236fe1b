#include "client/softmax_client/region_pool.h"

#include <algorithm>
#include <bit>

namespace softmax::client {
namespace {

constexpr std::uint64_t kLeastBytes = 64 << 10;
constexpr std::chrono::seconds kFirstPause(1);
constexpr std::chrono::seconds kLongestPause(60);

// A few sizes serve all tensors.
std::uint64_t SizeFor(std::uint64_t bytes) { return std::bit_ceil(std::max(bytes, kLeastBytes)); }

}  // namespace

PooledRegion::~PooledRegion() { pool_->Return(memory_, size_, !spoilt_); }

void PooledRegion::Lost() {
  spoilt_ = true;
  pool_->OnLost();
}

void RegionPool::Start() {
  thread_ = std::thread([this] { Run(); });
}

void RegionPool::Close() {
  std::multimap<std::uint64_t, Idle> idle;
  {
    const MutexLock lock(mu_);
    closed_ = true;
    idle.swap(idle_);
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<PooledRegion> RegionPool::Take(std::uint64_t bytes) {
  const std::uint64_t size = SizeFor(bytes);
  std::shared_ptr<RegionMemory> memory;
  {
    const MutexLock lock(mu_);
    if (closed_ || size > max_bytes_) return nullptr;
    const auto after = idle_.upper_bound(size);
    if (after == idle_.begin() || std::prev(after)->first != size) {
      if (Clock::now() >= ask_again_ && wanted_.insert(size).second) wake_.notify_all();
      return nullptr;
    }
    memory = std::move(std::prev(after)->second.memory);
    idle_.erase(std::prev(after));
  }
  return std::make_shared<PooledRegion>(shared_from_this(), std::move(memory), size);
}

void RegionPool::Return(const std::shared_ptr<RegionMemory>& memory, std::uint64_t size, bool usable) {
  const MutexLock lock(mu_);
  if (usable && !closed_) {
    idle_.emplace(size, Idle{memory, Clock::now()});
  } else {
    bytes_ -= size;
  }
}

void RegionPool::OnLost() {
  std::multimap<std::uint64_t, Idle> idle;  // given back behind the lock
  const MutexLock lock(mu_);
  idle.swap(idle_);
  for (const auto& [size, region] : idle) bytes_ -= size;
  AskLater(/*refused=*/false);
}

void RegionPool::AskLater(bool refused) {
  pause_ = refused ? kLongestPause
                   : std::min<Clock::duration>(std::max<Clock::duration>(kFirstPause, 2 * pause_), kLongestPause);
  ask_again_ = Clock::now() + pause_;
  wanted_.clear();
}

std::vector<RegionPool::Idle> RegionPool::TakeOld() {
  std::vector<Idle> old;
  const auto now = Clock::now();
  for (auto at = idle_.begin(); at != idle_.end();) {
    const auto next = std::next(at);
    if (now - at->second.since >= kept_) {
      bytes_ -= at->first;
      old.push_back(std::move(at->second));
      idle_.erase(at);
    }
    at = next;
  }
  return old;
}

void RegionPool::Run() {
  for (;;) {
    std::vector<Idle> old;
    std::uint64_t size = 0;
    {
      const MutexLock lock(mu_);
      if (!closed_ && wanted_.empty()) wake_.wait_until(mu_, Clock::now() + kept_ / 4);
      if (closed_) return;
      old = TakeOld();
      if (wanted_.empty()) continue;
      size = *wanted_.begin();
      // Others make room, the least first.
      while (bytes_ + size > max_bytes_ && !idle_.empty()) {
        bytes_ -= idle_.begin()->first;
        old.push_back(std::move(idle_.begin()->second));
        idle_.erase(idle_.begin());
      }
      if (bytes_ + size > max_bytes_) {
        wanted_.erase(size);
        continue;
      }
      bytes_ += size;
    }
    old.clear();
    Make(size);
  }
}

void RegionPool::Make(std::uint64_t size) {
  auto memory = regions_.AllocateMemory(size, Memory::kHost, std::nullopt);
  const MutexLock lock(mu_);
  wanted_.erase(size);
  if (memory.ok() && !closed_) {
    pause_ = {};
    idle_.emplace(size, Idle{*std::move(memory), Clock::now()});
    return;
  }
  bytes_ -= size;
  // Not a matter of time.
  const absl::StatusCode code = memory.status().code();
  AskLater(code == absl::StatusCode::kUnimplemented || code == absl::StatusCode::kPermissionDenied ||
           code == absl::StatusCode::kFailedPrecondition || code == absl::StatusCode::kInvalidArgument);
}

}  // namespace softmax::client
