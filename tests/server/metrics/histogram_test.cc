#include "server/metrics/histogram.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace softmax::server {
namespace {

// The definition, against which the table look-up is judged.
template <std::size_t N>
std::size_t SlowIndexOf(const BucketBounds<N>& bounds, std::uint64_t value) {
  std::size_t index = 0;
  while (index < N && value > bounds.upper[index]) {
    ++index;
  }
  return index;
}

template <std::size_t N>
void ExpectSameIndexEverywhere(const BucketBounds<N>& bounds) {
  std::vector<std::uint64_t> values = {0, UINT64_MAX, UINT64_MAX - 1};
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    values.insert(values.end(), {power - 1, power, power + 1});
  }
  for (std::size_t i = 0; i < N; ++i) {
    values.insert(values.end(), {bounds.upper[i] - 1, bounds.upper[i], bounds.upper[i] + 1});
  }
  for (const std::uint64_t value : values) {
    EXPECT_EQ(bounds.IndexOf(value), SlowIndexOf(bounds, value)) << value;
  }
}

TEST(BucketBounds, FindsTheBucketOfEveryValueAtAnEdge) {
  ExpectSameIndexEverywhere(kTimeBounds);
  ExpectSameIndexEverywhere(kRowBounds);
  ExpectSameIndexEverywhere(kRequestBounds);
  ExpectSameIndexEverywhere(kByteBounds);
}

TEST(BucketBounds, RejectsBoundsThatAreTooNear) {
  constexpr BucketBounds kNear(std::array<std::uint64_t, 3>{10, 19, 40});
  EXPECT_FALSE(kNear.Valid());
  constexpr BucketBounds kTwice(std::array<std::uint64_t, 3>{10, 20, 40});
  EXPECT_TRUE(kTwice.Valid());
}

TEST(ShardHistogram, AddsUpIntoTotals) {
  ShardHistogram<kRowBounds> first;
  ShardHistogram<kRowBounds> second;
  first.Observe(0);
  first.Observe(1);
  first.Observe(5);
  second.Observe(5);
  second.Observe(UINT32_MAX);
  ShardHistogram<kRowBounds>::Totals totals;
  first.AddTo(&totals);
  second.AddTo(&totals);
  EXPECT_EQ(totals.counts[0], 2u);
  EXPECT_EQ(totals.counts[2], 2u);
  EXPECT_EQ(totals.counts.back(), 1u);
  EXPECT_EQ(totals.count(), 5u);
  EXPECT_EQ(totals.sum, 11 + std::uint64_t{UINT32_MAX});
}

}  // namespace
}  // namespace softmax::server
