#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "client/softmax_client/retry.h"
#include "client/softmax_client/softmax_client.h"

namespace softmax::client {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

const RetryPlan::Clock::time_point kNow{hours(1)};
constexpr AttemptFailure kUnavailable{absl::StatusCode::kUnavailable};

class RetryRulesTest : public ::testing::Test {
 protected:
  RetryPlan Plan(nanoseconds left = hours(1)) { return RetryPlan(options_, budget_, kNow + left); }

  RetryOptions options_{.max_attempts = 4,
                        .initial_backoff = milliseconds(10),
                        .max_backoff = milliseconds(25),
                        .multiplier = 2,
                        .max_tokens = 100,
                        .token_ratio = 0.5};
  RetryBudget budget_{options_};
};

TEST_F(RetryRulesTest, BackoffGrowsUpToItsLimitAndIsJittered) {
  auto plan = Plan();
  EXPECT_EQ(plan.NextDelay(kUnavailable, kNow, 0.5), milliseconds(5));   // half of 10
  EXPECT_EQ(plan.NextDelay(kUnavailable, kNow, 0.5), milliseconds(10));  // half of 20
  EXPECT_EQ(plan.NextDelay(kUnavailable, kNow, 0.2), milliseconds(5));   // a fifth of 25
  EXPECT_EQ(plan.NextDelay(kUnavailable, kNow, 0.5), std::nullopt);      // four attempts were made
  EXPECT_EQ(plan.attempts(), 4);
  EXPECT_FALSE(plan.throttled());
}

TEST_F(RetryRulesTest, OnlyUnavailableAndAdvisedExhaustionAreTriedAgain) {
  for (int code = 1; code <= 16; ++code) {
    auto plan = Plan();
    const bool again = plan.NextDelay({static_cast<absl::StatusCode>(code)}, kNow, 0).has_value();
    EXPECT_EQ(again, code == 14) << code;
    auto advised = Plan();
    const AttemptFailure with_advice{static_cast<absl::StatusCode>(code), 7};
    EXPECT_EQ(advised.NextDelay(with_advice, kNow, 0).has_value(), code == 14 || code == 8) << code;
  }
}

TEST_F(RetryRulesTest, TheServersAdviceReplacesTheBackoffAndStartsItAnew) {
  auto plan = Plan();
  EXPECT_EQ(plan.NextDelay(kUnavailable, kNow, 0.5), milliseconds(5));
  EXPECT_EQ(plan.NextDelay({absl::StatusCode::kResourceExhausted, 77}, kNow, 0.5), milliseconds(77));
  EXPECT_EQ(plan.NextDelay(kUnavailable, kNow, 0.5), milliseconds(5));
  auto told_not_to = Plan();
  EXPECT_EQ(told_not_to.NextDelay({absl::StatusCode::kUnavailable, -1}, kNow, 0.5), std::nullopt);
}

TEST_F(RetryRulesTest, NothingIsTriedPastTheDeadline) {
  EXPECT_TRUE(Plan(milliseconds(6)).NextDelay(kUnavailable, kNow, 0.5));
  EXPECT_FALSE(Plan(milliseconds(5)).NextDelay(kUnavailable, kNow, 0.5));
  EXPECT_FALSE(Plan(milliseconds(-5)).NextDelay(kUnavailable, kNow, 0));
  EXPECT_FALSE(Plan(milliseconds(100)).NextDelay({absl::StatusCode::kResourceExhausted, 100}, kNow, 0));
  const std::int64_t for_ever = INT64_MAX;
  EXPECT_FALSE(Plan().NextDelay({absl::StatusCode::kResourceExhausted, for_ever}, kNow, 0));
}

TEST_F(RetryRulesTest, BelowHalfTheBudgetNothingIsTriedAgain) {
  int retried = 0;
  for (int i = 0; i < 100; ++i) {
    auto plan = Plan();
    if (plan.NextDelay(kUnavailable, kNow, 0)) ++retried;
    EXPECT_EQ(plan.throttled(), i >= 49);
  }
  EXPECT_EQ(retried, 49);  // the 50th would leave exactly half
  EXPECT_EQ(budget_.tokens(), 0);
  for (int i = 0; i < 103; ++i) budget_.OnSuccess();  // 51.5: one failure still leaves more than half
  EXPECT_TRUE(Plan().NextDelay(kUnavailable, kNow, 0));
  EXPECT_FALSE(Plan().NextDelay(kUnavailable, kNow, 0));
  for (int i = 0; i < 1000; ++i) budget_.OnSuccess();
  EXPECT_EQ(budget_.tokens(), 100);
}

TEST_F(RetryRulesTest, FailuresThatAreNotTriedAgainCostNothing) {
  for (int i = 0; i < 200; ++i) Plan().NextDelay({absl::StatusCode::kInvalidArgument}, kNow, 0);
  EXPECT_EQ(budget_.tokens(), 100);
}

TEST_F(RetryRulesTest, WaitingForAServerCostsNoAttemptsAndEndsAtTheDeadline) {
  auto plan = Plan(milliseconds(90));
  const AttemptFailure waiting{absl::StatusCode::kUnavailable, std::nullopt, true};
  for (int i = 0; i < 1000; ++i) ASSERT_LE(plan.NextDelay(waiting, kNow, 0.9), milliseconds(100));
  EXPECT_EQ(budget_.tokens(), 100);
  EXPECT_TRUE(plan.NextDelay(kUnavailable, kNow, 0.5));
  EXPECT_FALSE(plan.NextDelay(waiting, kNow + milliseconds(80), 0.9));
}

TEST_F(RetryRulesTest, WhatNoServerHasSeenIsSentAgainAtOnceThenAfterAWhileAndNotForEver) {
  Resends resends;
  EXPECT_EQ(resends.Next(0.5), nanoseconds(0));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(resends.Next(0.5), milliseconds(5));
  EXPECT_EQ(resends.Next(0.5), std::nullopt);
}

TEST_F(RetryRulesTest, TheBudgetCountsRightFromManyThreads) {
  RetryBudget budget({.max_tokens = 1e6, .token_ratio = 0.001});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        budget.OnFailure();
        budget.OnSuccess();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_DOUBLE_EQ(budget.tokens(), 1e6 - 80000 + 80);
}

TEST_F(RetryRulesTest, AdviceTravelsWithTheStatusThroughOtherWords) {
  absl::Status status = absl::ResourceExhaustedError("full");
  EXPECT_EQ(RetryAfter(status), std::nullopt);
  SetRetryAdvice(25, &status);
  const absl::Status reworded = Reworded(status, "a:1: full");
  EXPECT_EQ(reworded.message(), "a:1: full");
  EXPECT_EQ(reworded.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfter(reworded), milliseconds(25));
  SetRetryAdvice(0, &status);
  EXPECT_EQ(RetryAfter(status), milliseconds(0));
  SetRetryAdvice(-1, &status);
  EXPECT_EQ(RetryAfter(status), std::nullopt);
  EXPECT_EQ(RetryAdviceOf(status), -1);
}

TEST(RandomFractionTest, FillsItsRangeAndStaysInside) {
  double least = 1;
  double most = 0;
  for (int i = 0; i < 10000; ++i) {
    const double x = RandomFraction();
    least = std::min(least, x);
    most = std::max(most, x);
  }
  EXPECT_GE(least, 0);
  EXPECT_LT(least, 0.05);
  EXPECT_GT(most, 0.95);
  EXPECT_LT(most, 1);
}

}  // namespace
}  // namespace softmax::client
