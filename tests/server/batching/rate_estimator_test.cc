#include "server/batching/rate_estimator.h"

#include <gtest/gtest.h>

namespace softmax::server {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kShort = RateEstimator::kShortestStretch;
constexpr std::uint64_t kLong = RateEstimator::kLongestStretch;

class RateEstimatorTest : public ::testing::Test {
 protected:
  // Begins `cost`, ends it after `time`, and measures where the stretch is over. Returns whether it is.
  bool Work(std::uint64_t cost, Nanoseconds time, bool saturated = true, bool ran = true) {
    rate_.Begin(cost, now_);
    now_ += time;
    const bool over = rate_.End(cost, ran);
    if (over) rate_.Measure(saturated, now_);
    return over;
  }
  double NanosecondsForKiB() const { return rate_.NanosecondsFor(1024); }

  TimePoint now_ = SteadyClock::now();
  RateEstimator rate_;
};

TEST_F(RateEstimatorTest, NothingTakesNoTimeUntilAStretchIsOver) {
  EXPECT_FALSE(Work(kShort - 1, microseconds(256)));
  EXPECT_EQ(NanosecondsForKiB(), 0);
  EXPECT_TRUE(Work(kShort, microseconds(256)));
  EXPECT_DOUBLE_EQ(NanosecondsForKiB(), 1000);
}

TEST_F(RateEstimatorTest, APauseBelongsToNoStretch) {
  Work(kShort, microseconds(256));
  now_ += std::chrono::seconds(1);
  Work(kShort, microseconds(256));
  EXPECT_DOUBLE_EQ(NanosecondsForKiB(), 1000);
}

// While something is in progress all the time, a stretch ends with its length alone.
TEST_F(RateEstimatorTest, WithoutAPauseStretchesAreLong) {
  rate_.Begin(1, now_);
  for (std::uint64_t done = kShort; done < kLong; done += kShort) EXPECT_FALSE(Work(kShort, microseconds(256)));
  EXPECT_EQ(NanosecondsForKiB(), 0);
  EXPECT_TRUE(Work(kShort, microseconds(256)));
  EXPECT_DOUBLE_EQ(NanosecondsForKiB(), 1000);
  EXPECT_FALSE(Work(kShort, microseconds(256)));  // the next begins at nothing
  EXPECT_EQ(rate_.in_progress(), 1u);
}

// A second's work that runs beside small requests, which alone have ended so far.
TEST_F(RateEstimatorTest, SmallOnesBesideALongOneDoNotMakeTheThreadLookSlow) {
  Work(kShort, microseconds(256));
  rate_.Begin(1000 * kLong, now_);
  const TimePoint begun = now_;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Work(kShort, std::chrono::milliseconds(10)));
  EXPECT_DOUBLE_EQ(NanosecondsForKiB(), 1000);
  now_ = begun + microseconds(1000 * kLong / 1024);  // at the known rate
  EXPECT_TRUE(rate_.End(1000 * kLong, /*ran=*/true));
  rate_.Measure(/*saturated=*/true, now_);
  EXPECT_NEAR(NanosecondsForKiB(), 1000, 5);
}

TEST_F(RateEstimatorTest, WhatDidNotRunIsNoWork) {
  EXPECT_FALSE(Work(kLong, microseconds(1), /*saturated=*/true, /*ran=*/false));
  EXPECT_EQ(NanosecondsForKiB(), 0);
  EXPECT_EQ(rate_.in_progress(), 0u);
}

TEST_F(RateEstimatorTest, ANewStretchCountsForAnEighth) {
  Work(kShort, microseconds(256));
  Work(kShort, microseconds(9 * 256));
  EXPECT_DOUBLE_EQ(NanosecondsForKiB(), 2000);
}

TEST_F(RateEstimatorTest, AStretchInWhichNothingWaitedCountsOnlyIfItWasFaster) {
  Work(kShort, microseconds(9 * 256));
  Work(kShort, microseconds(100 * 256), /*saturated=*/false);
  EXPECT_DOUBLE_EQ(NanosecondsForKiB(), 9000);
  Work(kShort, microseconds(256), /*saturated=*/false);
  EXPECT_DOUBLE_EQ(NanosecondsForKiB(), 8000);
}

}  // namespace
}  // namespace softmax::server
