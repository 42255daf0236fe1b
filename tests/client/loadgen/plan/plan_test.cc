#include <gtest/gtest.h>

#include <cmath>

#include "client/loadgen/experiment.h"
#include "client/loadgen/measure/run_result.h"
#include "client/loadgen/measure/statistics.h"
#include "client/loadgen/plan/load_options.h"
#include "client/loadgen/send/run.h"

namespace softmax::client {
namespace {

TEST(SearchTest, FindsTheHighestRateToWithinThePrecision) {
  for (const double limit : {137.0, 1000.0, 4321.0, 90000.0}) {
    const SearchResult found = FindHighestRate(100, 100000, 0.02, [&](double rate) {
      return std::optional(Probe{rate <= limit, false});
    });
    ASSERT_TRUE(found.rate_per_s) << limit;
    EXPECT_LE(*found.rate_per_s, limit);
    EXPECT_GE(*found.rate_per_s, limit / 1.02);
    EXPECT_FALSE(found.at_upper_bound);
    EXPECT_LT(found.steps.size(), 20u);
  }
}

TEST(SearchTest, SaysWhenNoRateOrEveryRateKeepsIt) {
  const auto none = FindHighestRate(100, 1000, 0.02, [](double) { return std::optional(Probe{false, false}); });
  EXPECT_FALSE(none.rate_per_s);
  EXPECT_EQ(none.steps.size(), 1u);
  const auto all = FindHighestRate(100, 1000, 0.02, [](double) { return std::optional(Probe{true, false}); });
  EXPECT_EQ(all.rate_per_s, 1000);
  EXPECT_TRUE(all.at_upper_bound);
}

TEST(SearchTest, SaysWhenTheGeneratorWasTheLimit) {
  const auto found = FindHighestRate(100, 100000, 0.02, [](double rate) {
    return std::optional(Probe{rate <= 5000, rate > 5000});
  });
  EXPECT_NEAR(*found.rate_per_s, 5000, 100);
  EXPECT_TRUE(found.generator_limited);
}

TEST(SearchTest, StopsWhenTold) {
  int calls = 0;
  const auto found = FindHighestRate(100, 100000, 0.02, [&](double) {
    return ++calls < 3 ? std::optional(Probe{true, false}) : std::nullopt;
  });
  EXPECT_TRUE(found.stopped);
  EXPECT_EQ(found.rate_per_s, 200);
}

TEST(StatisticsTest, IntervalsAreStudents) {
  // Of 1..5: mean 3, standard deviation sqrt(2.5), t with 4 degrees of freedom 2.776.
  const Interval five = MeanInterval({1, 2, 3, 4, 5});
  EXPECT_DOUBLE_EQ(five.mean, 3);
  EXPECT_NEAR(five.half_width, 2.776 * std::sqrt(2.5 / 5), 1e-3);
  EXPECT_EQ(MeanInterval({7}).half_width, 0);
  // 41 values: t with 40 degrees of freedom is 2.021.
  std::vector<double> many(41, 0);
  many[0] = 1;
  EXPECT_NEAR(MeanInterval(many).half_width, 2.021 * std::sqrt((1 - 1.0 / 41) / 40 / 41), 1e-4);
}

std::vector<TimelinePoint> Points(const std::vector<std::pair<std::uint64_t, double>>& figures) {
  std::vector<TimelinePoint> points;
  for (const auto& [answered, p50] : figures) {
    TimelinePoint& point = points.emplace_back();
    point.answered = answered;
    point.p50_us = p50;
  }
  return points;
}

TEST(StabilityTest, TheLastThreeMustAgreeInRateAndMedian) {
  EXPECT_FALSE(LastAgree(Points({{100, 10}, {100, 10}}), 0.1));  // too few
  EXPECT_TRUE(LastAgree(Points({{5, 900}, {100, 10}, {95, 10.5}, {102, 10}}), 0.1));
  EXPECT_FALSE(LastAgree(Points({{100, 10}, {80, 10}, {100, 10}}), 0.1));
  EXPECT_FALSE(LastAgree(Points({{100, 10}, {100, 12}, {100, 10}}), 0.1));
  EXPECT_FALSE(LastAgree(Points({{0, 0}, {0, 0}, {0, 0}}), 0.1));  // nothing came
}

TEST(OptionsTest, ServiceLevelsAreRead) {
  for (const char* text : {"p99.9<=500us", "p99.9=500us", "p99.9:500us"}) {
    const auto level = ParseServiceLevel(text);
    ASSERT_TRUE(level) << text;
    EXPECT_EQ(level->percentile, 99.9);
    EXPECT_EQ(level->limit, std::chrono::microseconds(500));
  }
  for (const char* wrong : {"", "p99", "99=2ms", "p0=2ms", "p100=2ms", "p99=", "p99=2", "p99=-2ms", "p=2ms"}) {
    EXPECT_FALSE(ParseServiceLevel(wrong)) << wrong;
  }
}

TEST(OptionsTest, SweepsAreListsStepsOrFactors) {
  EXPECT_EQ(ParseSweepValues("1,2,5"), (std::vector<double>{1, 2, 5}));
  EXPECT_EQ(ParseSweepValues("100..300/100"), (std::vector<double>{100, 200, 300}));
  EXPECT_EQ(ParseSweepValues("1..8*2"), (std::vector<double>{1, 2, 4, 8}));
  for (const char* wrong : {"", "1,,2", "1..5", "5..1/1", "1..5/0", "1..5*1", "0..5/1", "1..1000000/1"}) {
    EXPECT_FALSE(ParseSweepValues(wrong)) << wrong;
  }
}

TEST(OptionsTest, ConcurrencyIsDealtOutExactly) {
  LoadOptions load;
  load.connections = 8;
  load.processes = 4;
  for (const int requests : {1, 3, 7, 8, 12, 64, 13}) {
    const LoadOptions made = AtConcurrency(load, requests);
    EXPECT_EQ(made.connections * made.in_flight, requests);
    EXPECT_LE(made.processes, made.connections);
  }
  load.addresses = {{"a:1"}, {"b:1"}, {"c:1"}};
  for (const int requests : {3, 6, 21, 39, 99}) {
    const LoadOptions made = AtConcurrency(load, requests);
    EXPECT_EQ(made.TotalConnections() * made.in_flight, requests);
  }
}

TEST(OptionsTest, ClosedLoopsSendFromAProcessForEveryFourCores) {
  EXPECT_EQ(DefaultProcesses(Loop::kClosed, 2), 1);
  EXPECT_EQ(DefaultProcesses(Loop::kClosed, 8), 2);
  EXPECT_EQ(DefaultProcesses(Loop::kClosed, 16), 4);
  EXPECT_EQ(DefaultProcesses(Loop::kClosed, 192), 4);
  EXPECT_EQ(DefaultProcesses(Loop::kOpen, 16), 1);
}

TEST(ProgressTest, TheLineCountsErrorsByCodeAndKnowsTheWarmup) {
  const auto board = Board::Create(2, 2, 1);
  board->control().go_ns = 1000000000;
  board->control().start_ns = kNever;
  EXPECT_EQ(ProgressText(*board, 3500000000, 120), "warm-up 2.5 s  120 requests/s  no errors");
  board->control().start_ns = 4000000000;
  board->thread(0, 1).errors[14] = 3;
  board->thread(1, 0).errors[14] = 4;
  board->thread(1, 1).errors[8] = 1;
  board->thread(0, 0).dropped_full = 9;
  EXPECT_EQ(ProgressText(*board, 5000000000, 120),
            "running 1.0 s  120 requests/s  dropped 9  RESOURCE_EXHAUSTED 1  UNAVAILABLE 7");
}

TEST(TimelineTest, EachPointIsWhatIsNewSinceTheLast) {
  const auto board = Board::Create(1, 2, 1);
  TimelineReader reader(*board);
  for (int i = 0; i < 100; ++i) board->of_class(0, 0, 0).latency.Record(1000000);
  board->thread(0, 0).answers = 100;
  EXPECT_EQ(reader.Read(1).answered, 100u);
  for (int i = 0; i < 10; ++i) board->of_class(0, 1, 0).latency.Record(9000000);
  board->thread(0, 1).answers = 10;
  board->thread(0, 1).errors[4] = 2;
  const TimelinePoint second = reader.Read(2);
  EXPECT_EQ(second.answered, 10u);
  EXPECT_EQ(second.errors, 2u);
  EXPECT_NEAR(second.p50_us, 9000, 9);  // not mixed with the hundred of 1 ms before
  EXPECT_EQ(reader.Read(3).answered, 0u);
}

// A run of an open loop at 1000/s for 10 s as it should be.
RunResult GoodRun() {
  RunResult run;
  run.load = AtRate(LoadOptions(), 1000);
  run.load.slo = {99, std::chrono::milliseconds(2)};
  run.seconds = 10;
  run.sent = run.latency.count = 10000;
  run.offered_per_s = run.achieved_per_s = 1000;
  run.within_slo = 0.995;
  return run;
}

std::string VerdictsOf(RunResult run) {
  Judge(&run);
  std::string text = run.generator.limited() ? "LIMITED " : "";
  for (const std::string& verdict : run.verdicts) text += verdict + "\n";
  return text;
}

TEST(VerdictTest, AGoodRunOnlySaysThatItKeptItsLevel) {
  EXPECT_EQ(VerdictsOf(GoodRun()), "p99<=2ms was kept: 99.500 % of the requests were answered in time.\n");
}

TEST(VerdictTest, AFewLateSendsAreNoLimit) {
  RunResult run = GoodRun();
  run.sent = 20;
  run.late = 4;
  EXPECT_EQ(VerdictsOf(run).find("LIMITED"), std::string::npos);
}

TEST(VerdictTest, WhatSpoilsARunIsSaid) {
  const auto says = [](auto spoil, const char* what) {
    RunResult run = GoodRun();
    spoil(run);
    const std::string text = VerdictsOf(run);
    EXPECT_NE(text.find(what), std::string::npos) << text << " lacks " << what;
  };
  says([](RunResult& run) { run.late = 101; }, "LIMITED");
  says([](RunResult& run) { run.dropped_behind = 500; }, "LIMITED");
  says([](RunResult& run) { run.dropped_full = 3; }, "3 requests were dropped");
  says([](RunResult& run) { run.achieved_per_s = 900; }, "900.0/s were answered");
  says([](RunResult& run) { run.within_slo = 0.98; }, "not kept");
  says([](RunResult& run) { run.machine_busy = 0.99; }, "99 % busy");
  says([](RunResult& run) { run.errors[14] = 4; }, "4 requests failed");
  says([](RunResult& run) { run.wrong = 2; }, "2 answers were WRONG");
  says(
      [](RunResult& run) {
        run.timeline = Points({{200, 9}, {200, 9}, {200, 9}, {200, 9}, {200, 9}, {300, 9}});
      },
      "Not stable");
  says(
      [](RunResult& run) {
        run.load.loop = Loop::kClosed;
        run.generator.busiest_thread = 0.99;
      },
      "LIMITED");
}

}  // namespace
}  // namespace softmax::client
