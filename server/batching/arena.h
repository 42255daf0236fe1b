#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "server/base/mutex.h"

namespace softmax::server {

// Neighbouring slabs of an arena. Empty: slabs == 0.
struct Span {
  std::uint32_t first = 0;
  std::uint32_t slabs = 0;
};

// One contiguous block of memory, cut into slabs of equal size and handed out as spans of neighbouring slabs. Nothing
// is allocated after construction; the memory is the caller's and outlives this.
//
// Small spans are taken from the low end, lowest address first, so that the same cache-warm slabs are used again; spans
// of kLargeSlabs and more come from the high end, so that small ones do not cut the room for large ones to pieces.
// Thread-safe; every call holds a short lock, and none waits.
class Arena {
 public:
  static constexpr std::uint32_t kLargeSlabs = 32;

  // `bytes` is a multiple of slab_bytes, and both are > 0.
  Arena(std::byte* memory, std::size_t bytes, std::size_t slab_bytes);

  // Enough neighbouring slabs for `bytes` > 0, or an empty span when there is no such room now.
  [[nodiscard]] Span TryReserve(std::uint64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Shrinks the span to what `bytes` > 0 need and frees the rest.
  void Trim(Span& span, std::uint64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Frees the span. May run on any thread, inside the transport's locks included: it only flips bits and, when
  // somebody waits for room, calls the listener.
  void Release(Span span) ABSL_LOCKS_EXCLUDED(mu_);

  std::byte* Address(Span span) const { return memory_ + static_cast<std::size_t>(span.first) * slab_bytes_; }
  std::uint64_t SizeOf(Span span) const { return static_cast<std::uint64_t>(span.slabs) * slab_bytes_; }
  std::uint32_t slabs_total() const { return slabs_total_; }
  std::uint32_t slabs_used() const { return slabs_used_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_total() const { return static_cast<std::uint64_t>(slabs_total_) * slab_bytes_; }

  // `listener` is called after every Release while the flag is set, without a lock held. Set once, before the first
  // Release, and valid as long as the arena.
  void SetReleaseListener(std::function<void()> listener) { listener_ = std::move(listener); }
  void SetWaiting(bool waiting) { waiting_.store(waiting); }

 private:
  std::uint32_t SlabsFor(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>((bytes + slab_bytes_ - 1) / slab_bytes_);
  }
  bool IsFree(std::uint32_t slab) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return (free_[slab / 64] >> (slab % 64) & 1) != 0;
  }
  void Mark(Span span, bool free) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::int64_t FindLow(std::uint32_t slabs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::int64_t FindHigh(std::uint32_t slabs) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  std::byte* const memory_;
  const std::size_t slab_bytes_;
  const std::uint32_t slabs_total_;
  std::function<void()> listener_;

  // Own synchronization.
  std::atomic<std::uint32_t> slabs_used_{0};
  std::atomic<bool> waiting_{false};

  Mutex mu_;
  std::vector<std::uint64_t> free_ ABSL_GUARDED_BY(mu_);  // one bit a slab
  std::uint32_t low_hint_ ABSL_GUARDED_BY(mu_) = 0;       // no free slab lies below this word of free_
};

}  // namespace softmax::server
