#include "common/base/clock.h"

#include <gtest/gtest.h>

#include <limits>

namespace softmax {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMostSeconds = kMost / 1'000'000'000;

TEST(Clock, SecondsBeyondTheTypeSaturate) {
  EXPECT_EQ(Saturated(1, 5), Nanoseconds(1'000'000'005));
  EXPECT_EQ(Saturated(-1, 5), Nanoseconds(-999'999'995));
  EXPECT_EQ(Saturated(kMostSeconds, kMost % 1'000'000'000), Nanoseconds::max());
  EXPECT_EQ(Saturated(kMostSeconds, 999'999'999), Nanoseconds::max());
  EXPECT_EQ(Saturated(kMostSeconds + 1, 0), Nanoseconds::max());
  EXPECT_EQ(Saturated(std::int64_t{2'562'048} * 3600, 0), Nanoseconds::max());  // 292 years and some hours
  EXPECT_EQ(Saturated(kMost, 999'999'999), Nanoseconds::max());
  EXPECT_EQ(Saturated(kLeast, 0), Nanoseconds::min());
}

TEST(Clock, TimesBeyondTheTypeSaturate) {
  const TimePoint now(std::chrono::hours(10));
  EXPECT_EQ(Later(now, Nanoseconds(1)), now + Nanoseconds(1));
  EXPECT_EQ(Later(now, Nanoseconds::max()), kNoDeadline);
  EXPECT_EQ(Later(TimePoint::max(), Nanoseconds(1)), kNoDeadline);
  EXPECT_EQ(Later(TimePoint::max() - Nanoseconds(1), Nanoseconds(1)), kNoDeadline);
  EXPECT_EQ(Later(TimePoint::min(), Nanoseconds(-1)), TimePoint::min());
  EXPECT_EQ(Later(now, Nanoseconds::min()), now + Nanoseconds::min());
}

}  // namespace
}  // namespace softmax
