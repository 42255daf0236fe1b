#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "server/base/counters.h"

// Counters and histograms with one writing thread and any number of readers: a plain load, add and
// store, no locked instruction and no mutex. (prometheus::Histogram takes a mutex per observation:
// 58 ns alone, 183 ns with two threads.)
namespace softmax::server {

// Upper bounds of a histogram's buckets, inclusive as Prometheus' `le`, ascending, each at least
// twice the one before. That last rule leaves at most one bound between two powers of two, so a
// value finds its bucket in one table look-up and one comparison.
template <std::size_t N>
struct BucketBounds {
  std::array<std::uint64_t, N + 1> upper{};  // the last one stands for +Inf
  std::array<std::uint8_t, 65> first{};      // by bit width of the value: the lowest bucket it may be in

  constexpr explicit BucketBounds(const std::array<std::uint64_t, N>& bounds) {
    for (std::size_t i = 0; i < N; ++i) upper[i] = bounds[i];
    upper[N] = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t width = 0; width < first.size(); ++width) {
      const std::uint64_t lowest = width == 0 ? 0 : std::uint64_t{1} << (width - 1);
      std::uint8_t index = 0;
      while (upper[index] < lowest) ++index;
      first[width] = index;
    }
  }

  constexpr std::size_t IndexOf(std::uint64_t value) const {
    const std::size_t index = first[std::bit_width(value)];
    return index + (value > upper[index] ? 1 : 0);
  }

  constexpr bool Valid() const {
    for (std::size_t i = 1; i < N; ++i) {
      if (upper[i] / 2 < upper[i - 1]) return false;
    }
    return true;
  }

  static constexpr std::size_t size() { return N; }
};

template <std::size_t N>
BucketBounds(const std::array<std::uint64_t, N>&) -> BucketBounds<N>;

// What a scrape has summed over the threads.
template <std::size_t N>
struct HistogramTotals {
  std::array<std::uint64_t, N + 1> counts{};  // per bucket, not cumulative
  std::uint64_t sum = 0;

  // Derived from the buckets, so that the two never disagree however a scrape falls between two
  // stores.
  std::uint64_t count() const {
    std::uint64_t total = 0;
    for (const std::uint64_t n : counts) total += n;
    return total;
  }
};

template <const auto& kBounds>
class ShardHistogram {
 public:
  using Totals = HistogramTotals<kBounds.size()>;

  void Observe(std::uint64_t value) {
    counts_[kBounds.IndexOf(value)].Add(1);
    sum_.Add(value);
  }

  void AddTo(Totals* totals) const {
    for (std::size_t i = 0; i < counts_.size(); ++i) totals->counts[i] += counts_[i].Get();
    totals->sum += sum_.Get();
  }

 private:
  std::array<ThreadCounter, kBounds.size() + 1> counts_;
  ThreadCounter sum_;
};

// Nanoseconds: 10 us to 10 s in steps of 1, 2.5, 5.
inline constexpr BucketBounds kTimeBounds(std::array<std::uint64_t, 19>{
    10'000, 25'000, 50'000, 100'000, 250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000, 25'000'000,
    50'000'000, 100'000'000, 250'000'000, 500'000'000, 1'000'000'000, 2'500'000'000, 5'000'000'000, 10'000'000'000});
inline constexpr BucketBounds kRowBounds(std::array<std::uint64_t, 11>{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536,
                                                                       262144, 1048576});
inline constexpr BucketBounds kRequestBounds(std::array<std::uint64_t, 11>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512,
                                                                           1024});
inline constexpr BucketBounds kByteBounds(std::array<std::uint64_t, 12>{
    64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456});
static_assert(kTimeBounds.Valid() && kRowBounds.Valid() && kRequestBounds.Valid() && kByteBounds.Valid());

}  // namespace softmax::server
