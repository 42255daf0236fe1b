#include "server/rpc/queue/control_pace.h"

#include <gtest/gtest.h>

namespace softmax::server {
namespace {

TEST(ControlPace, BeginsSoManyAStepFromTheFirstOn) {
  ControlPace pace;
  int begun = 0;
  for (int i = 0; i < 3 * ControlPace::kCallsAStep - 1; ++i) pace.Begin([&] { ++begun; });
  EXPECT_EQ(begun, ControlPace::kCallsAStep);
  const TimePoint now = SteadyClock::now();
  EXPECT_LE(pace.next(), now);  // after a pause nobody waits
  pace.Advance(now);
  EXPECT_EQ(begun, 2 * ControlPace::kCallsAStep);
  EXPECT_EQ(pace.next(), now + ControlPace::kStep);
  pace.Advance(now + ControlPace::kStep - Nanoseconds(1));
  EXPECT_EQ(begun, 2 * ControlPace::kCallsAStep);
  pace.Advance(now + ControlPace::kStep);
  EXPECT_EQ(begun, 3 * ControlPace::kCallsAStep - 1);
  EXPECT_EQ(pace.next(), kNoDeadline);
}

}  // namespace
}  // namespace softmax::server
