#include "server/rpc/accept/late_greetings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace softmax::server {
namespace {

class LateGreetingsTest : public ::testing::Test {
 protected:
  Nanoseconds WaitOf(const std::string& network) const { return late_.GreetAt(network, now_) - now_; }

  LateGreetings late_;
  TimePoint now_ = SteadyClock::now();
};

TEST_F(LateGreetingsTest, EachEndDoublesTheWaitUpToALimit) {
  EXPECT_EQ(WaitOf("a"), Nanoseconds(0));
  Nanoseconds expected = LateGreetings::kFirst;
  for (int ends = 0; ends < 12; ++ends) {
    late_.Ended("a", now_);
    EXPECT_EQ(WaitOf("a"), std::min(expected, LateGreetings::kMost));
    expected *= 2;
  }
  EXPECT_EQ(WaitOf("a"), LateGreetings::kMost);
  EXPECT_EQ(WaitOf("b"), Nanoseconds(0));
}

TEST_F(LateGreetingsTest, TheWaitIsCountedFromTheEnd) {
  late_.Ended("a", now_);
  now_ += LateGreetings::kFirst / 4;
  EXPECT_EQ(WaitOf("a"), LateGreetings::kFirst * 3 / 4);
  now_ += LateGreetings::kFirst;
  EXPECT_EQ(WaitOf("a"), Nanoseconds(0));
  late_.Ended("a", now_);  // it is remembered for longer
  EXPECT_EQ(WaitOf("a"), 2 * LateGreetings::kFirst);
}

TEST_F(LateGreetingsTest, WhoIsQuietForAWhileBeginsAnew) {
  for (int ends = 0; ends < 12; ++ends) late_.Ended("a", now_);
  now_ += LateGreetings::kForgottenAfter;
  late_.Ended("a", now_);
  EXPECT_EQ(WaitOf("a"), LateGreetings::kFirst);
  now_ += LateGreetings::kForgottenAfter;
  late_.Ended("b", now_);
  EXPECT_EQ(late_.size(), 1u);
}

TEST_F(LateGreetingsTest, ManyNetworksTakeBoundedMemory) {
  for (std::size_t i = 0; i < 3 * LateGreetings::kNetworks; ++i) {
    late_.Ended("first", now_);  // again and again: the others are quiet for longer
    late_.Ended(std::to_string(i), now_);
  }
  EXPECT_EQ(late_.size(), LateGreetings::kNetworks);
  EXPECT_EQ(WaitOf("first"), LateGreetings::kMost);
  EXPECT_EQ(WaitOf("0"), Nanoseconds(0));
}

TEST_F(LateGreetingsTest, UnixSocketsAreNeverLate) {
  late_.Ended("", now_);
  EXPECT_EQ(WaitOf(""), Nanoseconds(0));
  EXPECT_EQ(late_.size(), 0u);
}

}  // namespace
}  // namespace softmax::server
