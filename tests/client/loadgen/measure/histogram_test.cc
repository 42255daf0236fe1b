#include "client/loadgen/measure/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace softmax::client {
namespace {

TEST(HistogramTest, EveryBucketIsWithinAThousandthOfItsValues) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000000; ++i) {
    const std::uint64_t value = random() >> (24 + random() % 40);
    const std::size_t index = Histogram::IndexOf(value);
    ASSERT_LT(index, Histogram::kBuckets);
    const auto read = static_cast<double>(Histogram::ValueOf(index));
    ASSERT_NEAR(read, static_cast<double>(value), static_cast<double>(value) * 0.001) << value;
  }
}

TEST(HistogramTest, BucketsAreInOrderWithoutGaps) {
  std::size_t last = 0;
  for (std::uint64_t value = 1; value < 1 << 20; ++value) {
    const std::size_t index = Histogram::IndexOf(value);
    ASSERT_TRUE(index == last || index == last + 1) << value;
    last = index;
  }
}

TEST(HistogramTest, SmallValuesAreExact) {
  for (std::uint64_t value = 0; value < 2048; ++value) {
    EXPECT_EQ(Histogram::ValueOf(Histogram::IndexOf(value)), value);
  }
}

TEST(HistogramTest, LongDurationsCountAsTheLongest) {
  EXPECT_EQ(Histogram::IndexOf(~0ull), Histogram::kBuckets - 1);
  const auto histogram = std::make_unique<Histogram>();
  histogram->Record(~0ull);
  EXPECT_EQ(histogram->Count(), 1u);
}

TEST(HistogramTest, QuantilesEqualThoseOfTheSortedValues) {
  std::mt19937_64 random(2);
  std::lognormal_distribution<double> durations(12, 2);
  const auto histogram = std::make_unique<Histogram>();
  std::vector<std::uint64_t> values(100000);
  for (auto& value : values) {
    value = static_cast<std::uint64_t>(durations(random));
    histogram->Record(value);
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram->Count(), values.size());
  EXPECT_EQ(histogram->Max(), values.back());
  EXPECT_EQ(histogram->Min(), values.front());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  EXPECT_NEAR(histogram->Mean(), mean, 1);
  for (const double quantile : {0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(quantile * static_cast<double>(values.size()))));
    const auto exact = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(histogram->Quantile(quantile)), exact, exact * 0.001) << quantile;
  }
}

TEST(HistogramTest, MergedEqualsRecordedTogether) {
  const auto a = std::make_unique<Histogram>();
  const auto b = std::make_unique<Histogram>();
  const auto both = std::make_unique<Histogram>();
  for (std::uint64_t i = 0; i < 10000; ++i) {
    (i % 3 == 0 ? a : b)->Record(i * i);
    both->Record(i * i);
  }
  a->Merge(*b);
  EXPECT_EQ(a->Count(), both->Count());
  EXPECT_EQ(a->Max(), both->Max());
  EXPECT_EQ(a->Min(), both->Min());
  EXPECT_EQ(a->Mean(), both->Mean());
  for (double q = 0; q <= 1; q += 0.01) EXPECT_EQ(a->Quantile(q), both->Quantile(q));
}

TEST(HistogramTest, WhatCameSinceACopyIsToldApart) {
  const auto histogram = std::make_unique<Histogram>();
  for (int i = 0; i < 1000; ++i) histogram->Record(500);
  const auto before = std::make_unique<Histogram>();
  before->Merge(*histogram);
  for (int i = 0; i < 10; ++i) histogram->Record(2000);
  EXPECT_EQ(histogram->Quantile(0.5), 500u);
  EXPECT_EQ(histogram->QuantileSince(before.get(), 0.5), 2000u);
  EXPECT_EQ(histogram->QuantileSince(histogram.get(), 0.5), 0u);
}

TEST(HistogramTest, EmptyReadsAsZero) {
  const auto histogram = std::make_unique<Histogram>();
  EXPECT_EQ(histogram->Quantile(0.5), 0u);
  EXPECT_EQ(histogram->Max(), 0u);
  EXPECT_EQ(histogram->Min(), 0u);
  EXPECT_EQ(histogram->Mean(), 0);
}

TEST(HistogramTest, IsWholeInItsBuckets) {
  const auto one = std::make_unique<Histogram>();
  for (std::uint64_t ns = 1; ns < (std::uint64_t{1} << 41); ns = ns * 9 / 8 + 1) one->Record(ns);
  const auto other = std::make_unique<Histogram>();
  other->Merge(one->Buckets(), one->Min(), one->Max(), one->Mean());
  EXPECT_EQ(other->Count(), one->Count());
  EXPECT_EQ(other->Min(), one->Min());
  EXPECT_EQ(other->Max(), one->Max());
  EXPECT_NEAR(other->Mean(), one->Mean(), one->Mean() * 1e-9);
  for (const double quantile : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    EXPECT_EQ(other->Quantile(quantile), one->Quantile(quantile)) << quantile;
  }
}

}  // namespace
}  // namespace softmax::client
