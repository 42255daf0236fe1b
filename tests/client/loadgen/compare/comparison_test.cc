#include "client/loadgen/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kTrials = 2000;

ResultsFile FileWith(std::vector<RunResult> runs) {
  ResultsFile file;
  file.outcome.runs = std::move(runs);
  return file;
}

// Runs of a simulated server: what varies from run to run is a factor, and what varies within one goes on for a while.
class Simulation {
 public:
  RunResult Run(double slower, double run_spread, double stretch_spread) {
    RunResult run;
    run.name = "rate 1000/s";
    run.load.loop = Loop::kOpen;
    run.seconds = 60;
    run.latency.count = 60000;
    const double factor = slower * std::exp(run_spread * normal_(random_));
    double drift = normal_(random_);
    double p50_us = 0;
    for (int i = 0; i < 60; ++i) {
      drift = 0.6 * drift + 0.8 * normal_(random_);  // of variance 1
      TimelinePoint point{.t_s = i + 1.0, .sent = 1000, .answered = 1000};
      point.p50_us = 200 * factor * std::exp(stretch_spread * drift);
      point.p99_us = 5 * point.p50_us * std::exp(stretch_spread * normal_(random_));
      p50_us += point.p50_us / 60;
      run.timeline.push_back(point);
    }
    run.achieved_per_s = 1000;
    run.latency.at_us = {p50_us, 2 * p50_us, 5 * p50_us, kUnknown, kUnknown};
    run.latency.mean_us = p50_us * 1.1;
    return run;
  }

  ResultsFile Repeats(int count, double slower) {
    std::vector<RunResult> runs;
    for (int i = 0; i < count; ++i) runs.push_back(Run(slower, 0.01, 0.02));
    return FileWith(std::move(runs));
  }

 private:
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
};

bool Fails(const ResultsFile& before, const ResultsFile& after, const std::string& rule) {
  return Compare({before}, {after}, {*ParseFailRule(rule)})->verdicts[0].failed;
}

FigureChange FigureNamed(const LoadChange& load, const std::string& name) {
  const auto at =
      std::find_if(load.figures.begin(), load.figures.end(), [&](const auto& of) { return of.name == name; });
  return at == load.figures.end() ? FigureChange() : *at;
}

TEST(CompareTest, RepeatsOfOneBuildAreRarelyAlarmsAndThreePercentAreFound) {
  Simulation simulation;
  int alarms = 0;
  int found = 0;
  int certain = 0;
  for (int i = 0; i < kTrials; ++i) {
    const ResultsFile before = simulation.Repeats(6, 1);
    const auto same = Compare({before}, {simulation.Repeats(6, 1)}, {*ParseFailRule("p50>+0%")});
    alarms += same->verdicts[0].failed;
    certain += FigureNamed(same->loads[0], "p50 us").is_certain();
    found += Fails(before, simulation.Repeats(6, 1.03), "p50>+0%");
  }
  // 2 and 38 of 40.
  EXPECT_LE(alarms, kTrials * 2 / 40);
  EXPECT_GE(found, kTrials * 38 / 40);
  EXPECT_NEAR(certain, kTrials * 0.05, kTrials * 0.015) << "the interval is of 95 %";
}

TEST(CompareTest, PartsOfTwoTimelinesAreAlmostAsTrustworthy) {
  Simulation simulation;
  int certain = 0;
  int found = 0;
  for (int i = 0; i < kTrials; ++i) {
    const ResultsFile before = FileWith({simulation.Run(1, 0, 0.02)});
    const auto same = Compare({before}, {FileWith({simulation.Run(1, 0, 0.02)})}, {});
    certain += FigureNamed(same->loads[0], "p50 us").is_certain();
    found += Fails(before, FileWith({simulation.Run(1.03, 0, 0.02)}), "p50>+0%");
    const auto slower = Compare({before}, {FileWith({simulation.Run(1.2, 0, 0.02)})}, {});
    const FigureChange p99 = FigureNamed(slower->loads[0], "p99 us");
    EXPECT_TRUE(p99.low > 0 && p99.low < p99.change) << p99.low;
  }
  EXPECT_LE(certain, kTrials * 0.08) << "stretches that are like their neighbours make the interval too narrow";
  EXPECT_GE(found, kTrials * 38 / 40);
}

TEST(CompareTest, APartWithoutAnswersMakesNothingCertain) {
  Simulation simulation;
  RunResult outage = simulation.Run(1.5, 0, 0.02);
  for (int i = 20; i < 30; ++i) outage.timeline[i].answered = 0;
  const auto comparison = Compare({FileWith({simulation.Run(1, 0, 0.02)})}, {FileWith({outage})}, {});
  EXPECT_FALSE(FigureNamed(comparison->loads[0], "p50 us").is_certain());
}

TEST(CompareTest, ARuleNeedsBothSizeAndCertainty) {
  Simulation simulation;
  const ResultsFile before = simulation.Repeats(10, 1);
  EXPECT_TRUE(Fails(before, simulation.Repeats(10, 1.10), "p99>+5%"));
  EXPECT_FALSE(Fails(before, simulation.Repeats(10, 1.03), "p99>+5%"));
  EXPECT_FALSE(Fails(before, simulation.Repeats(10, 0.90), "p99>+5%"));
  EXPECT_TRUE(Fails(before, simulation.Repeats(10, 0.90), "p99<-5%"));
  EXPECT_FALSE(Fails(before, before, "rate<-0%"));
  // Far apart, but so are the repeats.
  ResultsFile wide = before;
  for (std::size_t i = 0; i < wide.outcome.runs.size(); ++i)
    wide.outcome.runs[i].latency.at_us[2] *= i % 2 == 0 ? 8 : 0.5;
  EXPECT_FALSE(Fails(before, wide, "p99>+5%"));
}

TEST(CompareTest, WhatIsNotKnownDoesNotPass) {
  Simulation simulation;
  const ResultsFile one = FileWith({simulation.Run(1, 0, 0.02)});
  const auto comparison = Compare({one}, {one}, {*ParseFailRule("p99.9>+5%"), *ParseFailRule("p90>+5%")});
  for (const RuleVerdict& verdict : comparison->verdicts) {
    EXPECT_TRUE(verdict.failed);
    EXPECT_THAT(verdict.text, HasSubstr("cannot be told")) << "a single run's timeline has neither";
  }
}

TEST(CompareTest, RulesAreRead) {
  const auto rule = ParseFailRule("p99.9>+2.5%");
  ASSERT_TRUE(rule.has_value());
  EXPECT_EQ(rule->figure, "p99.9 us");
  EXPECT_TRUE(rule->above);
  EXPECT_DOUBLE_EQ(rule->limit, 0.025);
  EXPECT_EQ(ParseFailRule("rate<-3%")->figure, "requests/s");
  for (const char* wrong : {"", "p99", "p99>5", "p98>+5%", "p99>-5%", "rate<3%", "p99>nan%", "p99>%", "p99=+5%"}) {
    EXPECT_FALSE(ParseFailRule(wrong).has_value()) << wrong;
  }
}

TEST(CompareTest, LoadsAreFoundByTheirNames) {
  Simulation simulation;
  const auto named = [&](const char* name) {
    RunResult run = simulation.Run(1, 0, 0.02);
    run.name = name;
    return run;
  };
  const auto comparison = Compare({FileWith({named("a"), named("b")})}, {FileWith({named("b"), named("c")})}, {});
  ASSERT_EQ(comparison->loads.size(), 1u);
  EXPECT_EQ(comparison->loads[0].name, "b");
  EXPECT_THAT(comparison->notes, ::testing::ElementsAre("a was run before only", "c was run after only"));
  EXPECT_EQ(Compare({FileWith({named("a")})}, {FileWith({named("b")})}, {})->loads[0].name, "a and b");
  const auto none = Compare({FileWith({named("a"), named("b")})}, {FileWith({named("c")})}, {});
  EXPECT_EQ(none.status().message(), "no load was run both before and after");
}

TEST(CompareTest, SaysWhatDiffersInFlagsMachinesAndBuilds) {
  Simulation simulation;
  ResultsFile before = FileWith({simulation.Run(1, 0, 0.02)});
  before.head.settings = {{"shapes", "1x8"}, {"seed", "1"}};
  before.head.tool = {{"commit", "aaa"}, {"command", "softmax-loadgen --json a.json"}};
  before.head.machine.host = "one";
  before.outcome.runs[0].server.text = R"({"commit": "s1", "backend": "cpu"})";
  ResultsFile after = before;
  after.head.settings[0].second = "1x16";
  after.head.tool[0].second = "bbb";
  after.head.tool[1].second = "softmax-loadgen --json b.json";
  after.head.machine.host = "two";
  after.outcome.runs[0].server.text = R"({"commit": "s2", "backend": "cpu"})";
  const std::string table = ComparisonTable(*Compare({before}, {after, before}, {}));
  EXPECT_THAT(table, HasSubstr("differs    shapes: 1x8 -> 1x16, 1x8\n"));
  EXPECT_THAT(table, HasSubstr("differs    softmax-loadgen: commit: aaa -> aaa, bbb\n"));
  EXPECT_THAT(table, HasSubstr("differs    generator: host: one -> one, two\n"));
  EXPECT_THAT(table, HasSubstr("differs    server: commit: s1 -> s1, s2\n"));
  EXPECT_THAT(table, Not(HasSubstr("seed")));
  EXPECT_THAT(table, Not(HasSubstr("command")));
  EXPECT_THAT(table, Not(HasSubstr("backend")));
}

TEST(CompareTest, KindsOfRequestsAreComparedEach) {
  Simulation simulation;
  const auto side = [&](double slower) {
    ResultsFile file = simulation.Repeats(5, slower);
    for (RunResult& run : file.outcome.runs) {
      run.classes = {{"1x8", 500, 0, run.latency}, {"64x1024", 500, 0, run.latency}};
    }
    return file;
  };
  const auto comparison = Compare({side(1)}, {side(1.2)}, {});
  ASSERT_EQ(comparison->loads[0].classes.size(), 2u);
  EXPECT_EQ(comparison->loads[0].classes[1].name, "64x1024");
  const FigureChange p99 = FigureNamed(comparison->loads[0].classes[1], "p99 us");
  EXPECT_NEAR(p99.change, 0.2, 0.03);
  EXPECT_TRUE(p99.is_certain());
  const auto document = nlohmann::json::parse(ComparisonJson("softmax-loadgen compare", *comparison));
  EXPECT_EQ(document["comparison"]["loads"][0]["classes"][1]["figures"][3]["name"], "p99 us");
}

}  // namespace
}  // namespace softmax::client
