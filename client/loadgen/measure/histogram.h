#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace softmax::client {

struct HistogramBucket {
  std::uint64_t ns = 0;  // its middle
  std::uint64_t n = 0;   // durations in it
};

// Counts of durations in nanoseconds, in buckets whose width is at most 2^-10 of their value: a
// percentile read back is within 0.1 % of a recorded one (exact below 2048 ns). Covers up to 2^40
// ns, 18 minutes; longer ones count as that.
//
// Plain memory without pointers, so that it can lie in memory shared between processes, zeroed. One
// thread records; any thread or process may read meanwhile and sees each bucket's count at some
// recent moment.
class Histogram {
 public:
  static constexpr int kSubBits = 10;
  static constexpr int kMaxBits = 40;
  static constexpr std::size_t kBuckets = std::size_t{kMaxBits - kSubBits + 1} << kSubBits;

  void Record(std::uint64_t ns) {
    Add(counts_[IndexOf(ns)], 1);
    Add(sum_, ns);
    if (ns > max_.load(std::memory_order_relaxed)) max_.store(ns, std::memory_order_relaxed);
    // Kept as its distance from the top, so that zeroed memory is an empty histogram.
    if (~ns > inverted_min_.load(std::memory_order_relaxed)) inverted_min_.store(~ns, std::memory_order_relaxed);
  }

  // Adds what `other` holds. The caller is the one recording thread.
  void Merge(const Histogram& other);

  // Those that are not empty, by their value.
  std::vector<HistogramBucket> Buckets() const;
  // Adds what another histogram had of which this is known; its buckets are not empty. The caller is the one recording
  // thread.
  void Merge(const std::vector<HistogramBucket>& buckets, std::uint64_t min, std::uint64_t max, double mean);

  std::uint64_t Count() const;
  std::uint64_t Max() const { return max_.load(std::memory_order_relaxed); }
  std::uint64_t Min() const;  // 0 when nothing was recorded
  double Mean() const;

  // The smallest recorded value (to within its bucket) that at least `quantile` of all values do
  // not exceed; 0 when nothing was recorded.
  std::uint64_t Quantile(double quantile) const { return QuantileSince(nullptr, quantile); }

  // The same for what came after `earlier`, an older copy of this histogram; nullptr: for everything.
  std::uint64_t QuantileSince(const Histogram* earlier, double quantile) const;

  static std::size_t IndexOf(std::uint64_t ns) {
    constexpr std::uint64_t kLimit = std::uint64_t{1} << kMaxBits;
    if (ns >= kLimit) return kBuckets - 1;
    const int shift = std::bit_width(ns >> (kSubBits + 1));  // 0 below 2^(kSubBits + 1)
    return (static_cast<std::size_t>(shift) << kSubBits) + static_cast<std::size_t>(ns >> shift);
  }
  // The middle of a bucket.
  static std::uint64_t ValueOf(std::size_t index);

 private:
  // One writer: a plain load and store is enough and costs no locked instruction.
  static void Add(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> counts_[kBuckets] = {};
  std::atomic<std::uint64_t> sum_ = 0;
  std::atomic<std::uint64_t> max_ = 0;
  std::atomic<std::uint64_t> inverted_min_ = 0;
};

}  // namespace softmax::client
