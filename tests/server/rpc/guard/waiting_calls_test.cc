#include "server/rpc/guard/waiting_calls.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace softmax::server {
namespace {

using std::chrono::seconds;

class WaitingCallsTest : public ::testing::Test {
 protected:
  WaitingCallsTest() {
    calls_.SetLimits({.max = 100, .share = 4, .timeout = seconds(10)});
    for (int i = 0; i < static_cast<int>(connections_.size()); ++i) Enter(i);
  }
  void Enter(int i) {
    calls_.Enter(&connections_[static_cast<std::size_t>(i)], [this, i] { ended_.insert(i); });
  }
  bool Set(int i, std::int64_t calls, bool brings = false) {
    return calls_.Set(&connections_[static_cast<std::size_t>(i)], calls, brings);
  }

  WaitingCalls calls_;
  std::array<WaitingCalls::Connection, 8> connections_;
  std::set<int> ended_;
};

TEST_F(WaitingCallsTest, AboveTheLimitWhoHoldsMoreThanItsShareOpensNoMore) {
  EXPECT_TRUE(Set(0, 60));
  EXPECT_TRUE(Set(1, 40));
  EXPECT_FALSE(Set(2, 5));
  EXPECT_TRUE(Set(3, 4));
  EXPECT_TRUE(Set(0, 59)) << "fewer are no more";
}

TEST_F(WaitingCallsTest, WhoBringsMessagesMayOpenTwiceAsMany) {
  EXPECT_TRUE(Set(0, 100));
  EXPECT_TRUE(Set(1, 50, /*brings=*/true));
  EXPECT_TRUE(Set(1, 100)) << "a moment ago";
  EXPECT_FALSE(Set(1, 101, /*brings=*/true));
}

TEST_F(WaitingCallsTest, TheLongestWithoutMessagesEndFirst) {
  EXPECT_TRUE(Set(0, 4));
  EXPECT_TRUE(Set(1, 20));
  EXPECT_TRUE(Set(2, 20));
  EXPECT_TRUE(Set(3, 20));
  EXPECT_TRUE(Set(1, 20, /*brings=*/true));
  calls_.Sweep(SteadyClock::now() + seconds(9));
  EXPECT_EQ(ended_, std::set<int>());
  calls_.Sweep(SteadyClock::now() + seconds(11));
  EXPECT_EQ(ended_, std::set<int>({2})) << "44 are fewer than half";
  EXPECT_TRUE(Set(4, 20));
  calls_.Sweep(SteadyClock::now() + seconds(30));
  EXPECT_EQ(ended_, std::set<int>({2, 3}));
}

TEST_F(WaitingCallsTest, CallsOfEndedConnectionsCountUntilTheyAreForgotten) {
  EXPECT_TRUE(Set(0, 100));
  calls_.Leave(&connections_[0]);
  EXPECT_EQ(calls_.total(), 100);
  EXPECT_FALSE(Set(1, 5));
  calls_.Leave(&connections_[1]);
  calls_.Sweep(SteadyClock::now() + seconds(1));
  EXPECT_EQ(calls_.total(), 0);
  Enter(1);
  EXPECT_TRUE(Set(1, 100));
}

TEST_F(WaitingCallsTest, WhatComesLateCountsAsOfAnEndedConnection) {
  calls_.Leave(&connections_[0]);
  EXPECT_TRUE(Set(0, 100));
  EXPECT_FALSE(Set(1, 5));
  EXPECT_FALSE(Set(0, 101));
  calls_.Sweep(SteadyClock::now() + seconds(1));
  EXPECT_EQ(calls_.total(), 5);
}

}  // namespace
}  // namespace softmax::server
