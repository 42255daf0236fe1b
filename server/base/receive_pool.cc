#include "server/base/receive_pool.h"

#include <atomic>
#include <cstdint>

#include "common/base/mutex.h"

namespace softmax::server {
namespace {

constexpr std::size_t kBlock = ReceivePool::kLargest;
// What a thread keeps for itself, the block it used last first: the next message then lands in its cache.
constexpr std::uint32_t kKept = 16;

// A free block's first bytes.
struct Free {
  Free* next;
};

// Both constant-initialized: malloc comes here before any constructor has run. They lie on cache lines of their own:
// every free() of every thread looks at the range, which does not change; blocks that come and go change the pool.
struct Range {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> bytes{0};  // 0: no pool
};
alignas(128) constinit Range range;

struct Pool {
  std::atomic<std::size_t> used{0};  // given out and not given back
  Mutex mu;
  Free* free ABSL_GUARDED_BY(mu) = nullptr;
  bool open ABSL_GUARDED_BY(mu) = false;  // blocks are given out
};
alignas(128) constinit Pool pool;

struct Receiver {
  bool receiving;
  std::uint32_t kept;
  Free* head;
};
constinit thread_local Receiver receiver{};

}  // namespace

bool ReceivePool::Install(std::byte* memory, std::size_t bytes) {
  const std::size_t count = bytes / kBlock;
  MutexLock lock(pool.mu);
  if (count == 0 || pool.open || pool.used.load() > 0) return false;
  pool.free = nullptr;
  for (std::size_t i = count; i-- > 0;) pool.free = new (memory + i * kBlock) Free{pool.free};
  range.begin.store(reinterpret_cast<std::uintptr_t>(memory), std::memory_order_relaxed);
  range.bytes.store(count * kBlock, std::memory_order_release);
  pool.open = true;
  return true;
}

bool ReceivePool::Remove() {
  MutexLock lock(pool.mu);
  pool.open = false;
  if (pool.used.load() > 0) return false;
  range.bytes.store(0);
  return true;
}

bool ReceivePool::Contains(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) - range.begin.load(std::memory_order_relaxed) <
         range.bytes.load(std::memory_order_relaxed);
}

void ReceivePool::BeginReceiving() { receiver.receiving = true; }

void ReceivePool::EndReceiving() {
  receiver.receiving = false;
  MutexLock lock(pool.mu);
  while (receiver.head != nullptr) {
    Free* const block = receiver.head;
    receiver.head = block->next;
    block->next = pool.free;
    pool.free = block;
    pool.used.fetch_sub(1, std::memory_order_relaxed);
  }
  receiver.kept = 0;
}

void* ReceivePool::TryTake(std::size_t bytes) {
  if (bytes < kSmallest || bytes > kLargest) return nullptr;
  if (receiver.head != nullptr) {
    Free* const block = receiver.head;
    receiver.head = block->next;
    --receiver.kept;
    return block;
  }
  MutexLock lock(pool.mu);
  if (!pool.open || pool.free == nullptr) return nullptr;
  Free* const block = pool.free;
  pool.free = block->next;
  pool.used.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void ReceivePool::Give(void* memory) {
  auto* const block = new (memory) Free{receiver.head};
  if (receiver.receiving && receiver.kept < kKept) {
    receiver.head = block;
    ++receiver.kept;
    return;
  }
  MutexLock lock(pool.mu);
  block->next = pool.free;
  pool.free = block;
  pool.used.fetch_sub(1, std::memory_order_relaxed);
}

std::size_t ReceivePool::blocks_total() { return range.bytes.load(std::memory_order_relaxed) / kBlock; }
std::size_t ReceivePool::blocks_used() { return pool.used.load(std::memory_order_relaxed); }

}  // namespace softmax::server
