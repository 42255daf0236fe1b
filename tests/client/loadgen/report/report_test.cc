#include "client/loadgen/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "client/loadgen/measure/run_result.h"

namespace softmax::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

LatencyFigures Answers(int count) {
  const auto histogram = std::make_unique<Histogram>();
  for (int i = 0; i < count; ++i) histogram->Record(1000 + static_cast<std::uint64_t>(i));
  return FiguresOf(*histogram);
}

Outcome OneRun(int answers) {
  Outcome outcome;
  RunResult run;
  run.name = "rate 0.001/s";
  run.load.loop = Loop::kOpen;
  run.load.arrivals.segments = {{0.001, 0.001, 1}};
  run.seconds = 1;
  run.offered_per_s = 0.001;
  run.latency = run.service = run.lag = Answers(answers);
  run.classes = {{"1x8", static_cast<double>(answers), 0, run.latency}};
  Judge(&run);
  outcome.runs.push_back(run);
  return outcome;
}

json Document(const Outcome& outcome) { return json::parse(ReportJson(Plan(), outcome)); }

TEST(Figures, OfNothingAreUnknown) {
  const json latency = Document(OneRun(0))["runs"][0]["latency"];
  EXPECT_EQ(latency["count"], 0);
  for (const char* figure : {"mean_us", "min_us", "max_us"}) EXPECT_TRUE(latency[figure].is_null()) << figure;
  for (const json& of : latency["percentiles"]) EXPECT_TRUE(of["us"].is_null()) << of;
}

TEST(Figures, NoQuantileHasFewerThanTenAnswersBeyondIt) {
  const auto known = [](int answers) {
    int count = 0;
    for (const double us : Answers(answers).at_us) count += std::isnan(us) ? 0 : 1;
    return count;
  };
  EXPECT_EQ(known(19), 0);
  EXPECT_EQ(known(20), 1);
  EXPECT_EQ(known(99), 1);
  EXPECT_EQ(known(100), 2);
  EXPECT_EQ(known(999), 2);
  EXPECT_EQ(known(1000), 3);
  EXPECT_EQ(known(9999), 3);
  EXPECT_EQ(known(10000), 4);
  EXPECT_EQ(known(100000), 5);
  EXPECT_FALSE(std::isnan(Answers(1).max_us));
}

TEST(Report, SaysThatNothingWasAnsweredAndShowsNoFigures) {
  const std::string table = ReportTable(Plan(), OneRun(0));
  EXPECT_THAT(table, HasSubstr("Nothing was answered within the window of 1 s"));
  EXPECT_THAT(table, Not(HasSubstr("nan")));
  const Outcome outcome = OneRun(0);
  Outcome two = outcome;
  two.runs.push_back(outcome.runs[0]);
  EXPECT_THAT(ReportTable(Plan(), two), HasSubstr("nothing was answered within the window of 1 s"));
  EXPECT_THAT(ReportTable(Plan(), two), Not(HasSubstr("nan")));
  EXPECT_THAT(ReportCsv(two, true), Not(HasSubstr("nan")));
  EXPECT_THAT(ReportTable(Plan(), OneRun(10)), Not(HasSubstr("othing was answered")));
}

TEST(Report, SlowRatesAreNotZero) {
  EXPECT_THAT(ReportTable(Plan(), OneRun(1)), HasSubstr("offered    0.001/s"));
  EXPECT_EQ(RateText(0), "0.0");
  EXPECT_EQ(RateText(0.00123), "0.00123");
  EXPECT_EQ(RateText(1234.56), "1234.6");
}

TEST(Report, NamesTheMachineTheDateAndTheVersions) {
  const json document = Document(OneRun(1));
  for (const char* of : {"host", "processor", "system"}) {
    EXPECT_NE(document["machine"].value(of, ""), "") << of;
  }
  EXPECT_GT(document["machine"]["cores"], 0);
  for (const char* of : {"version", "commit", "grpc"}) EXPECT_NE(document["tool"].value(of, ""), "") << of;
  EXPECT_THAT(document["date"].get<std::string>(), ::testing::MatchesRegex("20..-..-..T..:..:..Z"));
}

TEST(Report, AServersTextCannotForgeALine) {
  Outcome outcome = OneRun(1);
  outcome.runs[0].error_count = 1;
  outcome.runs[0].first_error = "bad\n\x1b[2Jverified";
  EXPECT_THAT(ReportTable(Plan(), outcome), HasSubstr("bad\\n\\u001b[2Jverified"));
}

TEST(Command, IsQuotedForAShell) {
  EXPECT_EQ(ShellQuoted("--rate"), "--rate");
  EXPECT_EQ(ShellQuoted("p99<=20ms"), "'p99<=20ms'");
  EXPECT_EQ(ShellQuoted("concurrency:1..64*2"), "'concurrency:1..64*2'");
  EXPECT_EQ(ShellQuoted("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(ShellQuoted(""), "''");
  EXPECT_EQ(ShellQuoted("dns:///a:1,b:2"), "dns:///a:1,b:2");
  EXPECT_EQ(ShellQuoted("~/x"), "'~/x'");
}

}  // namespace
}  // namespace softmax::client
