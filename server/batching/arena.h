#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

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
// of kLargeSlabs and more come from the high end, so that small ones do not cut the room for large ones to pieces. Who
// reserves and frees all the time names a home of kHomeSlabs, which is looked at first: its slabs are warm in the cache
// of its own core, and not in another's.
//
// Thread-safe. At home a span is taken, and everywhere freed, without a lock: each batch does both, and eight threads
// that met in one mutex for it spent 4 % of their time there. Searching elsewhere holds a short lock.
class Arena {
 public:
  static constexpr std::uint32_t kLargeSlabs = 32;
  static constexpr std::uint32_t kHomeSlabs = 64;
  static constexpr std::uint32_t kNoHome = UINT32_MAX;

  // `bytes` is a multiple of slab_bytes, and both are > 0.
  Arena(std::byte* memory, std::size_t bytes, std::size_t slab_bytes);

  // Enough neighbouring slabs for `bytes` > 0, or an empty span when there is no such room now.
  [[nodiscard]] Span TryReserve(std::uint64_t bytes, std::uint32_t home = kNoHome) ABSL_LOCKS_EXCLUDED(search_mu_);

  // Shrinks the span to what `bytes` > 0 need and frees the rest.
  void Trim(Span& span, std::uint64_t bytes);

  // Frees the span. May run on any thread, inside the transport's locks included: it only flips bits and, when
  // somebody waits for room, calls the listener.
  void Release(Span span);

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
  // The slabs of `span` in the word that holds `slab`, the first of the span's slabs there, as a mask.
  static std::uint64_t MaskFrom(Span span, std::uint32_t slab);
  // Takes the slabs, all or none.
  bool Claim(Span span);
  void Free(Span span);
  Span ClaimAtHome(std::uint32_t slabs, std::uint32_t home);
  std::int64_t FindLow(std::uint32_t slabs) const;
  std::int64_t FindHigh(std::uint32_t slabs) const;

  // Constant after construction.
  std::byte* const memory_;
  const std::size_t slab_bytes_;
  const std::uint32_t slabs_total_;
  std::function<void()> listener_;

  // Own synchronization. Each word is its home's thread's, which changes it with every batch, so it has a cache line of
  // its own; and what all threads change has one that nothing else is on.
  struct alignas(64) Word {
    std::atomic<std::uint64_t> bits{0};
  };
  std::vector<Word> free_;  // one bit a slab
  std::atomic<bool> waiting_{false};

  alignas(128) std::atomic<std::uint32_t> slabs_used_{0};

  alignas(128) Mutex search_mu_;  // one search at a time: two would take each other's pieces
};

// Shared ownership of a span: a batch holds one reference, and so does every answer that leaves by reference. The last
// one frees the span, on whatever thread it is dropped. The arena outlives all of them.
class SpanRef {
 public:
  SpanRef() = default;
  SpanRef(Arena* arena, Span span) : block_(new Block{arena, span}) {}
  SpanRef(const SpanRef& other) : block_(other.block_) {
    if (block_ != nullptr) block_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  SpanRef(SpanRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  SpanRef& operator=(SpanRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~SpanRef() { Reset(); }

  void Reset() {
    if (block_ == nullptr) return;
    if (block_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      block_->arena->Release(block_->span);
      delete block_;
    }
    block_ = nullptr;
  }
  explicit operator bool() const { return block_ != nullptr; }
  std::byte* address() const { return block_->arena->Address(block_->span); }
  std::uint64_t size() const { return block_->arena->SizeOf(block_->span); }
  // Only while this is the single reference.
  void Trim(std::uint64_t bytes) { block_->arena->Trim(block_->span, bytes); }

 private:
  struct Block {
    Arena* arena;
    Span span;
    std::atomic<std::uint32_t> refs{1};
  };
  Block* block_ = nullptr;
};

}  // namespace softmax::server
