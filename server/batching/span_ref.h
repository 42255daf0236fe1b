#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "server/batching/arena.h"

namespace softmax::server {

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
