#include "client/loadgen/measure/histogram.h"

#include <algorithm>
#include <cmath>

namespace softmax::client {

void Histogram::Merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    const std::uint64_t count = other.counts_[i].load(std::memory_order_relaxed);
    if (count != 0) Add(counts_[i], count);
  }
  Add(sum_, other.sum_.load(std::memory_order_relaxed));
  if (other.Max() > Max()) max_.store(other.Max(), std::memory_order_relaxed);
  const std::uint64_t inverted = other.inverted_min_.load(std::memory_order_relaxed);
  if (inverted > inverted_min_.load(std::memory_order_relaxed)) {
    inverted_min_.store(inverted, std::memory_order_relaxed);
  }
}

std::vector<HistogramBucket> Histogram::Buckets() const {
  std::vector<HistogramBucket> buckets;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    const std::uint64_t count = counts_[i].load(std::memory_order_relaxed);
    if (count != 0) buckets.push_back({ValueOf(i), count});
  }
  return buckets;
}

void Histogram::Merge(const std::vector<HistogramBucket>& buckets, std::uint64_t min, std::uint64_t max, double mean) {
  std::uint64_t count = 0;
  for (const HistogramBucket& bucket : buckets) {
    Add(counts_[IndexOf(bucket.ns)], bucket.n);
    count += bucket.n;
  }
  Add(sum_, static_cast<std::uint64_t>(std::llround(mean * static_cast<double>(count))));
  if (max > Max()) max_.store(max, std::memory_order_relaxed);
  if (~min > inverted_min_.load(std::memory_order_relaxed)) inverted_min_.store(~min, std::memory_order_relaxed);
}

std::uint64_t Histogram::Count() const {
  std::uint64_t total = 0;
  for (const auto& count : counts_) total += count.load(std::memory_order_relaxed);
  return total;
}

std::uint64_t Histogram::ValueOf(std::size_t index) {
  constexpr std::size_t kSub = std::size_t{1} << kSubBits;
  if (index < 2 * kSub) return index;
  const std::size_t shift = (index >> kSubBits) - 1;
  const std::uint64_t low = static_cast<std::uint64_t>(index - (shift << kSubBits)) << shift;
  return low + (std::uint64_t{1} << shift) / 2;
}

std::uint64_t Histogram::Min() const {
  const std::uint64_t inverted = inverted_min_.load(std::memory_order_relaxed);
  return inverted == 0 ? 0 : ~inverted;
}

double Histogram::Mean() const {
  const std::uint64_t count = Count();
  if (count == 0) return 0;
  return static_cast<double>(sum_.load(std::memory_order_relaxed)) / static_cast<double>(count);
}

std::uint64_t Histogram::QuantileSince(const Histogram* earlier, double quantile) const {
  const auto count_of = [&](std::size_t i) {
    const std::uint64_t count = counts_[i].load(std::memory_order_relaxed);
    return earlier == nullptr ? count : count - earlier->counts_[i].load(std::memory_order_relaxed);
  };
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) total += count_of(i);
  if (total == 0) return 0;
  const double exact = std::ceil(quantile * static_cast<double>(total));
  const std::uint64_t wanted = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(exact), 1, total);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += count_of(i);
    if (seen >= wanted) return std::min(ValueOf(i), Max());
  }
  return Max();
}

}  // namespace softmax::client
