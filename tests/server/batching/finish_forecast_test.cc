#include "server/batching/finish_forecast.h"

#include <gtest/gtest.h>

namespace softmax::server {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kMiB = 1u << 20;
constexpr Nanoseconds kPoll{0};

class FinishForecastTest : public ::testing::Test {
 protected:
  void Finish(int times, std::uint64_t bytes, Nanoseconds execution, bool at_waking = false) {
    for (int i = 0; i < times; ++i) forecast_.Finished(bytes, execution, at_waking);
  }
  Nanoseconds Nap(std::uint64_t bytes, Nanoseconds elapsed) const { return forecast_.NapFor(bytes, elapsed); }

  FinishForecast forecast_;
};

TEST_F(FinishForecastTest, PollsUntilABatchHasFinished) { EXPECT_EQ(Nap(100 * kMiB, microseconds(0)), kPoll); }

TEST_F(FinishForecastTest, SleepsUntilShortlyBeforeABatchIsDueThenLooksNowAndThen) {
  Finish(1, kMiB, microseconds(400));
  EXPECT_EQ(Nap(kMiB, microseconds(0)), microseconds(350));
  EXPECT_EQ(Nap(kMiB, microseconds(300)), microseconds(50));
  EXPECT_EQ(Nap(kMiB, microseconds(349)), microseconds(25));
  EXPECT_EQ(Nap(kMiB, microseconds(4000)), microseconds(25));
  EXPECT_EQ(Nap(2 * kMiB, microseconds(0)), microseconds(700));
  EXPECT_EQ(Nap(1000 * kMiB, microseconds(0)), FinishForecast::kLongestNap);
}

TEST_F(FinishForecastTest, PollsForWhatIsShort) {
  Finish(1, kMiB, microseconds(99));
  EXPECT_EQ(Nap(kMiB, microseconds(0)), kPoll);
  Finish(100, kMiB, microseconds(300));
  EXPECT_GT(Nap(kMiB, microseconds(0)), kPoll);
  EXPECT_EQ(Nap(kMiB / 4, microseconds(0)), kPoll);  // due after 75 us
}

TEST_F(FinishForecastTest, SmallBatchesSayNothingAndAreNotSleptFor) {
  Finish(100, 64, microseconds(1000));
  EXPECT_EQ(Nap(kMiB, microseconds(0)), kPoll);
  Finish(1, kMiB, microseconds(4000));
  EXPECT_EQ(Nap(FinishForecast::kFewestBytes - 1, microseconds(0)), kPoll);
}

// A sleeper sees every batch finish when it wakes, however much sooner that was.
TEST_F(FinishForecastTest, FindsOutThatBatchesHaveBecomeQuicker) {
  Finish(8, kMiB, microseconds(4000));
  int batches = 0;
  for (; Nap(kMiB, microseconds(0)) > kPoll && batches < 1000; ++batches) {
    Finish(1, kMiB, std::max<Nanoseconds>(microseconds(30), Nap(kMiB, microseconds(0))), /*at_waking=*/true);
  }
  EXPECT_LT(batches, 40);
}

TEST_F(FinishForecastTest, OneSlowBatchIsNoRule) {
  Finish(8, kMiB, microseconds(40));
  Finish(1, kMiB, microseconds(400));
  EXPECT_EQ(Nap(kMiB, microseconds(0)), kPoll);
}

}  // namespace
}  // namespace softmax::server
