#include "server/batching/arena.h"

#include <bit>

namespace softmax::server {

Arena::Arena(std::byte* memory, std::size_t bytes, std::size_t slab_bytes)
    : memory_(memory),
      slab_bytes_(slab_bytes),
      slabs_total_(static_cast<std::uint32_t>(bytes / slab_bytes)),
      free_((slabs_total_ + 63) / 64) {
  MutexLock lock(mu_);
  Mark(Span{0, slabs_total_}, true);
}

void Arena::Mark(Span span, bool free) {
  std::uint32_t slab = span.first;
  const std::uint32_t end = span.first + span.slabs;
  while (slab < end) {
    const std::uint32_t bit = slab % 64;
    const std::uint32_t count = std::min(64 - bit, end - slab);
    const std::uint64_t mask = (count == 64 ? ~0ull : (1ull << count) - 1) << bit;
    if (free) {
      free_[slab / 64] |= mask;
    } else {
      free_[slab / 64] &= ~mask;
    }
    slab += count;
  }
  if (free && span.slabs > 0) low_hint_ = std::min(low_hint_, span.first / 64);
}

std::int64_t Arena::FindLow(std::uint32_t slabs) {
  while (low_hint_ < free_.size() && free_[low_hint_] == 0) ++low_hint_;
  std::uint32_t run = 0;
  for (std::uint32_t slab = low_hint_ * 64; slab < slabs_total_;) {
    const std::uint64_t word = free_[slab / 64] >> (slab % 64);
    if (word == 0) {  // nothing free in the rest of this word
      run = 0;
      slab = (slab / 64 + 1) * 64;
      continue;
    }
    const auto used = static_cast<std::uint32_t>(std::countr_zero(word));
    if (used > 0) {
      run = 0;
      slab += used;
      continue;
    }
    const auto free = static_cast<std::uint32_t>(std::countr_one(word));
    run += free;
    slab += free;
    if (run >= slabs) return static_cast<std::int64_t>(slab) - run;
  }
  return -1;
}

std::int64_t Arena::FindHigh(std::uint32_t slabs) const {
  std::uint32_t run = 0;
  for (std::uint32_t slab = slabs_total_; slab > 0;) {
    if (slab % 64 == 0 && free_[slab / 64 - 1] == 0) {
      run = 0;
      slab -= 64;
      continue;
    }
    --slab;
    run = IsFree(slab) ? run + 1 : 0;
    if (run == slabs) return slab;
  }
  return -1;
}

Span Arena::TryReserve(std::uint64_t bytes) {
  const std::uint32_t slabs = SlabsFor(bytes);
  if (slabs > slabs_total_) return {};
  MutexLock lock(mu_);
  const std::int64_t first = slabs >= kLargeSlabs ? FindHigh(slabs) : FindLow(slabs);
  if (first < 0) return {};
  const Span span{static_cast<std::uint32_t>(first), slabs};
  Mark(span, false);
  slabs_used_.fetch_add(slabs, std::memory_order_relaxed);
  return span;
}

void Arena::Trim(Span& span, std::uint64_t bytes) {
  const std::uint32_t keep = SlabsFor(bytes);
  if (keep >= span.slabs) return;
  const Span rest{span.first + keep, span.slabs - keep};
  span.slabs = keep;
  Release(rest);
}

void Arena::Release(Span span) {
  if (span.slabs == 0) return;
  {
    MutexLock lock(mu_);
    Mark(span, true);
    slabs_used_.fetch_sub(span.slabs, std::memory_order_relaxed);
  }
  if (waiting_.load()) listener_();
}

}  // namespace softmax::server
