#include "client/loadgen/plan/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "client/loadgen/plan/mix.h"

namespace softmax::client {
namespace {

using ::testing::HasSubstr;

ArrivalPlan PlanOf(const std::string& schedule, ArrivalKind kind = ArrivalKind::kConstant) {
  ArrivalPlan plan;
  plan.segments = *ParseSchedule(schedule);
  plan.kind = kind;
  return plan;
}

std::vector<Arrival> AllOf(const ArrivalPlan& plan, std::uint64_t index = 0, std::uint64_t count = 1) {
  ArrivalSequence sequence(plan, index, count);
  std::vector<Arrival> arrivals;
  while (const auto arrival = sequence.Next()) arrivals.push_back(*arrival);
  return arrivals;
}

std::size_t CountWithin(const std::vector<Arrival>& arrivals, double from_s, double to_s) {
  return static_cast<std::size_t>(std::count_if(arrivals.begin(), arrivals.end(), [&](const Arrival& a) {
    return static_cast<double>(a.offset_ns) >= from_s * 1e9 && static_cast<double>(a.offset_ns) < to_s * 1e9;
  }));
}

TEST(ScheduleTest, StepsRampsAndSteadyRatesFollowOneAnother) {
  const auto segments = *ParseSchedule("100..300/100@5s,300..50@1m,7.5@200ms");
  ASSERT_EQ(segments.size(), 5u);
  EXPECT_EQ(segments[2].from_per_s, 300);
  EXPECT_EQ(segments[2].seconds, 5);
  EXPECT_EQ(segments[3].to_per_s, 50);
  EXPECT_EQ(segments[3].seconds, 60);
  EXPECT_EQ(segments[4].from_per_s, 7.5);
  EXPECT_EQ(ParseSchedule("500..100/200@1s")->size(), 3u);  // steps may go down
}

TEST(ScheduleTest, WhatCannotBeReadIsNamed) {
  for (const char* wrong : {"", "100", "100@", "0@5s", "-1@5s", "a@5s", "100@0s", "1..@5s", "1..5/0@5s", "1..5/x@5s",
                            "1e9@5s", "1..1000000/1@1s", "1@5s,", "nan@1s"}) {
    const auto parsed = ParseSchedule(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("\""));
  }
}

TEST(ArrivalTest, AConstantRateIsEvenlySpacedToTheNanosecond) {
  const auto arrivals = AllOf(PlanOf("10000@2s"));
  ASSERT_EQ(arrivals.size(), 20000u);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    ASSERT_EQ(arrivals[i].position, i);
    ASSERT_NEAR(static_cast<double>(arrivals[i].offset_ns), static_cast<double>(i) * 1e5, 1.0);
  }
}

TEST(ArrivalTest, StepsSendTheirRateInEachStep) {
  const auto arrivals = AllOf(PlanOf("100..400/100@2s"));
  EXPECT_EQ(arrivals.size(), 2000u);
  for (int step = 0; step < 4; ++step) {
    EXPECT_NEAR(static_cast<double>(CountWithin(arrivals, step * 2.0, step * 2.0 + 2)), 200.0 * (step + 1), 1) << step;
  }
}

TEST(ArrivalTest, ARampPassesThroughEveryRate) {
  const auto arrivals = AllOf(PlanOf("0.001..1000@10s"));
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 5000, 1);
  // The integral of 100 t from 4 to 6 s.
  EXPECT_NEAR(static_cast<double>(CountWithin(arrivals, 4, 6)), 1000, 2);
  EXPECT_NEAR(static_cast<double>(CountWithin(AllOf(PlanOf("1000..10@10s")), 0, 5)), 3762.5, 2);
}

TEST(ArrivalTest, PoissonGapsAreExponential) {
  const auto arrivals = AllOf(PlanOf("1000@200s", ArrivalKind::kPoisson));
  const auto count = static_cast<double>(arrivals.size());
  EXPECT_NEAR(count, 200000, 4 * std::sqrt(200000));  // four standard deviations
  double squares = 0;
  std::size_t above_mean = 0;
  for (std::size_t i = 1; i < arrivals.size(); ++i) {
    const auto gap = static_cast<double>(arrivals[i].offset_ns - arrivals[i - 1].offset_ns);
    ASSERT_GE(gap, 0);
    squares += (gap - 1e6) * (gap - 1e6);
    above_mean += gap > 1e6 ? 1 : 0;
  }
  EXPECT_NEAR(std::sqrt(squares / count), 1e6, 0.02e6);  // as wide as their mean
  EXPECT_NEAR(static_cast<double>(above_mean) / count, std::exp(-1), 0.005);
}

TEST(ArrivalTest, SendersTogetherSendTheWholeSequenceHoweverManyThereAre) {
  for (const ArrivalKind kind : {ArrivalKind::kConstant, ArrivalKind::kPoisson}) {
    const ArrivalPlan plan = PlanOf("500..900@2s", kind);
    const auto whole = AllOf(plan);
    std::vector<Arrival> parts;
    for (std::uint64_t i = 0; i < 3; ++i) {
      for (const Arrival& arrival : AllOf(plan, i, 3)) parts.push_back(arrival);
    }
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
    ASSERT_EQ(parts.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(parts[i].offset_ns, whole[i].offset_ns);
  }
}

TEST(ArrivalTest, TheSeedDecidesThePoissonSequence) {
  ArrivalPlan plan = PlanOf("1000@1s", ArrivalKind::kPoisson);
  const auto first = AllOf(plan);
  EXPECT_EQ(AllOf(plan)[500].offset_ns, first[500].offset_ns);
  plan.seed = 2;
  EXPECT_NE(AllOf(plan)[500].offset_ns, first[500].offset_ns);
}

TEST(TraceTest, LinesAreTimesAndShapes) {
  ArrivalPlan plan;
  plan.trace =
      std::make_shared<const std::vector<TraceEntry>>(*ParseTrace("# a trace\n0.5\n\n0.5, 1\n2.25 0 # end\r\n", 2));
  const auto arrivals = AllOf(plan);
  ASSERT_EQ(arrivals.size(), 3u);
  EXPECT_EQ(arrivals[0].offset_ns, 500000000);
  EXPECT_EQ(arrivals[0].shape, -1);
  EXPECT_EQ(arrivals[1].shape, 1);
  EXPECT_EQ(arrivals[2].offset_ns, 2250000000);
  EXPECT_EQ(arrivals[2].shape, 0);
}

TEST(TraceTest, WhatIsWrongIsNamedWithItsLine) {
  const auto error = [](const char* text) { return std::string(ParseTrace(text, 2).status().message()); };
  EXPECT_THAT(error("1\n0.5\n"), HasSubstr("line 2"));
  EXPECT_THAT(error("1\n\nx\n"), HasSubstr("line 3"));
  EXPECT_THAT(error("1 2\n"), HasSubstr("2 shapes"));
  EXPECT_THAT(error("-1\n"), HasSubstr("-1"));
  EXPECT_THAT(error("1 0 7\n"), HasSubstr("more than"));
  EXPECT_THAT(error("# nothing\n"), HasSubstr("no arrivals"));
  EXPECT_THAT(std::string(ReadTrace("/nonexistent", 1).status().message()), HasSubstr("cannot be read"));
  EXPECT_THAT(std::string(ReadTrace("/dev/zero", 1).status().message()), HasSubstr("a device"));
  EXPECT_THAT(std::string(ReadTrace("/tmp", 1).status().message()), HasSubstr("a folder"));
}

TEST(TraceTest, ItsWindowIsOpenBehindTheLastArrival) {
  const auto seconds = [](const char* text) {
    ArrivalPlan plan;
    plan.trace = std::make_shared<const std::vector<TraceEntry>>(*ParseTrace(text, 1));
    return plan.Seconds();
  };
  EXPECT_DOUBLE_EQ(seconds("0\n0\n0\n"), 0.1);
  EXPECT_DOUBLE_EQ(seconds("0\n"), 0.1);
  EXPECT_DOUBLE_EQ(seconds("5\n"), 5.1);
  EXPECT_DOUBLE_EQ(seconds("0\n1\n2\n"), 3);
  EXPECT_DOUBLE_EQ(seconds("0\n10000000\n"), 2e7);
}

TEST(TraceTest, FilesOfOtherSystemsAreRead) {
  const std::string path = ::testing::TempDir() + "loadgen_trace";
  for (const char* text : {"\xef\xbb\xbf"
                           "0\r\n1\r\n",
                           "0\r1\r", "0\n1"}) {
    std::ofstream(path, std::ios::binary) << text;
    const auto trace = ReadTrace(path, 1);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->size(), 2u);
  }
  std::ofstream(path, std::ios::binary) << std::string(
      "\xff\xfe"
      "0\0",
      4);
  EXPECT_THAT(std::string(ReadTrace(path, 1).status().message()), HasSubstr("UTF-16"));
}

TEST(DistributionTest, DrawsHaveTheirShape) {
  std::mt19937_64 random(1);
  const auto share_below = [&](const char* text, std::int64_t border) {
    const Distribution distribution = *Distribution::Parse(text);
    int below = 0;
    for (int i = 0; i < 100000; ++i) below += distribution.Draw(random) < border ? 1 : 0;
    return below / 1e5;
  };
  EXPECT_NEAR(share_below("uniform:1:64", 33), 0.5, 0.01);
  EXPECT_NEAR(share_below("loguniform:16:4095", 256), 0.5, 0.01);  // the middle of 8 octaves
  // 1 / (1 + 1/2 + 1/3 + 1/4)
  EXPECT_NEAR(share_below("zipf:1:5:8", 6), 0.48, 0.01);
  EXPECT_EQ(share_below("17", 17), 0);
  EXPECT_EQ(share_below("fixed:17", 18), 1);
}

TEST(DistributionTest, BothBoundsAreDrawn) {
  std::mt19937_64 random(1);
  for (const char* text : {"uniform:3:5", "loguniform:3:5", "zipf:1.5:3:5"}) {
    const Distribution distribution = *Distribution::Parse(text);
    bool low = false;
    bool high = false;
    for (int i = 0; i < 1000; ++i) {
      const std::int64_t value = distribution.Draw(random);
      ASSERT_TRUE(value >= 3 && value <= 5) << text << " " << value;
      low = low || value == 3;
      high = high || value == 5;
    }
    EXPECT_TRUE(low && high) << text;
  }
}

TEST(DistributionTest, WhatCannotBeReadIsRefused) {
  for (const char* wrong : {"", "0", "uniform", "uniform:5", "uniform:5:1", "uniform:0:5", "uniform:1:2:3", "zipf:1:5",
                            "zipf:0:1:5", "zipf:1:1:99999999", "normal:1:5", "9999999999", "1.5"}) {
    EXPECT_FALSE(Distribution::Parse(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace softmax::client
