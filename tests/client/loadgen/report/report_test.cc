#include "client/loadgen/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

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

TEST(Report, SaysHowMuchAGeneratorThatWasTooSlowLeftOut) {
  RunResult run;
  run.load.loop = Loop::kOpen;
  run.seconds = 1;
  run.sent = 300;
  run.late = 75;
  run.dropped_behind = 100;
  run.lag.at_us[2] = 1500;
  Judge(&run);
  EXPECT_THAT(run.generator.why, HasSubstr("lag p99 1500 us, 25.00 % of the sends over 1 ms late, 25.00 % not sent"));
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

// A document with something else in every field that is read back.
json Everything() {
  json document = Document(OneRun(100));
  const auto change = [](auto& self, json& value) -> void {
    if (value.is_boolean()) value = !value.get<bool>();
    if (value.is_number_float() || value.is_null()) value = 0.25;
    if (value.is_number_unsigned()) value = value.get<std::uint64_t>() + 7;
    if (value.is_structured()) std::for_each(value.begin(), value.end(), [&](json& inner) { self(self, inner); });
  };
  json& run = document["runs"][0];
  run["timeline"] =
      json::array({{{"t_s", 1}, {"sent", 2}, {"answered", 3}, {"errors", 4}, {"p50_us", 5.5}, {"p99_us", 6.5}}});
  run["addresses"] = json::array({{{"address", "a:1"}, {"attempts", 2}, {"answered", 3}, {"failed", 4}}});
  for (auto& [name, value] : run.items()) change(change, value);
  run["generators"] = json::array({{{"file", "a.json"}, {"lacks", "all"}, {"machine", document["machine"]}}});
  run["generators"][0]["run"] = Document(OneRun(3))["runs"][0];
  run["loop"] = "closed";
  run["slo_us"] = 1500;
  run["server"] = {{"address", "b:2"}, {"rows", 9}};
  run["servers"] = json::array({run["server"]});
  for (const char* codes : {"errors", "warmup_errors", "retried"}) run[codes] = {{"UNAVAILABLE", 3}, {"INTERNAL", 1}};
  for (const char* text : {"name", "first_error", "first_wrong"}) run[text] = std::string("some ") + text;
  for (json* figures : {&run["latency"], &run["service_time"], &run["lag"], &run["classes"][0]["latency"]}) {
    for (std::size_t i = 0; i < kPercentiles.size(); ++i) (*figures)["percentiles"][i]["p"] = kPercentiles[i];
  }
  run["generator"] = {{"cpu_cores", 0.5}, {"busiest_thread", 0.75}, {"limited", true}, {"why", "it was"}};
  run["attempts"] = run["addresses"][0]["attempts"];
  run["retries"] = 4;
  run["dropped"] = run["dropped_full"].get<int>() + run["dropped_behind"].get<int>();
  document["search"] = {{"rate_per_s", 100.5},
                        {"at_upper_bound", true},
                        {"generator_limited", true},
                        {"stopped", true},
                        {"steps", {{{"rate_per_s", 50}, {"kept", true}, {"generator_limited", true}}}}};
  return document;
}

TEST(ReadReport, GivesBackAllThatWasWritten) {
  const json document = Everything();
  const auto read = ReadReport(document.dump());
  ASSERT_TRUE(read.ok()) << read.status();
  const json again = Document(*read);
  EXPECT_EQ(json::diff(document["runs"], again["runs"]).dump(1), "[]");
  for (const auto& [name, value] : document["search"].items()) EXPECT_EQ(again["search"][name], value) << name;
}

TEST(ReadReport, NamesWhatIsWrong) {
  const auto problem_of = [](const char* place, const json& value) {
    json document = Document(OneRun(1));
    document[json::json_pointer(place)] = value;
    return std::string(ReadReport(document.dump()).status().message());
  };
  EXPECT_EQ(problem_of("/runs/0/sent", "many"), "runs[0].sent: is not a whole number that fits");
  EXPECT_EQ(problem_of("/runs/0/sent", -1), "runs[0].sent: is not a whole number that fits");
  EXPECT_EQ(problem_of("/runs/0/in_flight", 5e9), "runs[0].in_flight: is not a whole number that fits");
  EXPECT_EQ(problem_of("/runs/0/classes/0/latency/mean_us", "1"),
            "runs[0].classes[0].latency.mean_us: is not a number");
  EXPECT_EQ(problem_of("/runs/0/latency/percentiles/2/us", true), "runs[0].latency.percentiles[2].us: is not a number");
  EXPECT_EQ(problem_of("/runs/0/errors", {{"INTERNAL", "x"}}),
            "runs[0].errors.INTERNAL: is not a whole number that fits");
  EXPECT_EQ(problem_of("/runs/0/name", 3), "runs[0].name: is not a text");
  EXPECT_EQ(problem_of("/runs/0/loop", "ajar"), "runs[0].loop: is not \"open\" or \"closed\"");
  EXPECT_EQ(problem_of("/runs/0/complete", 1), "runs[0].complete: is not true or false");
  EXPECT_EQ(problem_of("/runs/0/generator", 1), "runs[0].generator: is not an object");
  EXPECT_EQ(problem_of("/runs", 1), "runs: is not a list");
  EXPECT_EQ(problem_of("/runs/0/no_such_thing", 1), "");
  for (const char* text : {"", "[]", "{}", "{\"schema\": 2}", "{"}) {
    EXPECT_EQ(ReadReport(text).status().message(), "is no report of softmax-loadgen (JSON with \"schema\": 1)") << text;
  }
}

TEST(Report, AServersTextCannotForgeALine) {
  Outcome outcome = OneRun(1);
  outcome.runs[0].errors[14] = 1;
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
