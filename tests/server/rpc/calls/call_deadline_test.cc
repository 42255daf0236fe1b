#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "server/rpc/calls/call_times.h"

namespace softmax::server {
namespace {

constexpr std::int64_t kYears292 = std::int64_t{2'562'048} * 3600;

TEST(CallDeadline, BeyondTheClocksEndItIsFarAway) {
  const TimePoint far = SteadyClock::now() + std::chrono::hours(200 * 8766);  // 200 years
  for (const gpr_clock_type clock : {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME}) {
    for (const std::int64_t seconds : {kYears292, std::int64_t{99'999'999} * 3600, INT64_MAX - 1}) {
      EXPECT_GT(DeadlineOf({seconds, 999'999'999, clock}), far) << clock << " " << seconds;
    }
    EXPECT_EQ(DeadlineOf(gpr_inf_future(clock)), kNoDeadline);
    EXPECT_LT(DeadlineOf(gpr_inf_past(clock)), SteadyClock::now());
  }
}

TEST(CallDeadline, IsThatOfTheCall) {
  EXPECT_EQ(DeadlineOf({5, 7, GPR_CLOCK_MONOTONIC}), TimePoint(Nanoseconds(5'000'000'007)));
}

TEST(CallDeadline, OfARequestSaturatesToo) {
  const TimePoint late = TimePoint::max() - std::chrono::microseconds(5);
  EXPECT_EQ(DeadlineAfter(late, std::numeric_limits<std::uint32_t>::max()), kNoDeadline);
  EXPECT_EQ(DeadlineAfter(late, 0), kNoDeadline);
  EXPECT_EQ(DeadlineAfter(TimePoint(), 3), TimePoint(std::chrono::microseconds(3)));
}

}  // namespace
}  // namespace softmax::server
