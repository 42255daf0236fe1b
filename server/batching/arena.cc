#include "server/batching/arena.h"

#include <bit>

namespace softmax::server {
namespace {

constexpr std::uint32_t kBits = 64;
static_assert(Arena::kHomeSlabs == kBits);  // homes are the words of the bitmap

// The first of `slabs` neighbouring free slabs in a word, or -1.
int FindInWord(std::uint64_t free, std::uint32_t slabs) {
  // Bit i: slabs i to i + length - 1 are free.
  for (std::uint32_t length = 1; length < slabs && free != 0;) {
    const std::uint32_t step = std::min(length, slabs - length);
    free &= free >> step;
    length += step;
  }
  return free == 0 ? -1 : std::countr_zero(free);
}

}  // namespace

Arena::Arena(std::byte* memory, std::size_t bytes, std::size_t slab_bytes)
    : memory_(memory),
      slab_bytes_(slab_bytes),
      slabs_total_(static_cast<std::uint32_t>(bytes / slab_bytes)),
      free_((slabs_total_ + kBits - 1) / kBits) {
  Free(Span{0, slabs_total_});
}

std::uint64_t Arena::MaskFrom(Span span, std::uint32_t slab) {
  const std::uint32_t bit = slab % kBits;
  const std::uint32_t count = std::min(kBits - bit, span.first + span.slabs - slab);
  return (count == kBits ? ~0ull : (1ull << count) - 1) << bit;
}

void Arena::Free(Span span) {
  const std::uint32_t end = span.first + span.slabs;
  for (std::uint32_t slab = span.first; slab < end; slab = (slab / kBits + 1) * kBits) {
    free_[slab / kBits].bits.fetch_or(MaskFrom(span, slab));
  }
}

bool Arena::Claim(Span span) {
  const std::uint32_t end = span.first + span.slabs;
  for (std::uint32_t slab = span.first; slab < end; slab = (slab / kBits + 1) * kBits) {
    const std::uint64_t mask = MaskFrom(span, slab);
    std::uint64_t word = free_[slab / kBits].bits.load();
    do {
      if ((word & mask) != mask) {  // somebody at home was faster
        Free(Span{span.first, slab - span.first});
        return false;
      }
    } while (!free_[slab / kBits].bits.compare_exchange_weak(word, word & ~mask));
  }
  return true;
}

Span Arena::ClaimAtHome(std::uint32_t slabs, std::uint32_t home) {
  if (home >= free_.size() || slabs > kHomeSlabs) return {};
  while (true) {
    const int bit = FindInWord(free_[home].bits.load(), slabs);
    if (bit < 0) return {};
    const Span span{home * kHomeSlabs + static_cast<std::uint32_t>(bit), slabs};
    if (Claim(span)) return span;
  }
}

std::int64_t Arena::FindLow(std::uint32_t slabs) const {
  std::uint32_t run = 0;
  for (std::uint32_t slab = 0; slab < slabs_total_;) {
    const std::uint64_t word = free_[slab / kBits].bits.load() >> (slab % kBits);
    if (word == 0) {  // nothing free in the rest of this word
      run = 0;
      slab = (slab / kBits + 1) * kBits;
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
    const std::uint64_t word = free_[(slab - 1) / kBits].bits.load();
    if (slab % kBits == 0 && word == 0) {
      run = 0;
      slab -= kBits;
      continue;
    }
    --slab;
    run = (word >> (slab % kBits) & 1) != 0 ? run + 1 : 0;
    if (run == slabs) return slab;
  }
  return -1;
}

Span Arena::TryReserve(std::uint64_t bytes, std::uint32_t home) {
  const std::uint32_t slabs = SlabsFor(bytes);
  if (slabs > slabs_total_) return {};
  Span span;
  if (slabs < kLargeSlabs) span = ClaimAtHome(slabs, home);
  if (span.slabs == 0) {
    MutexLock lock(search_mu_);
    do {
      const std::int64_t first = slabs >= kLargeSlabs ? FindHigh(slabs) : FindLow(slabs);
      if (first < 0) return {};
      span = Span{static_cast<std::uint32_t>(first), slabs};
    } while (!Claim(span));
  }
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
  Free(span);
  slabs_used_.fetch_sub(span.slabs, std::memory_order_relaxed);
  if (waiting_.load()) listener_();
}

}  // namespace softmax::server
