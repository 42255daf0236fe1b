#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/client/support/fake_server.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace softmax::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class ExperimentTest : public ::testing::Test {
 protected:
  json Run(std::vector<std::string> more, int expected_exit = 0) {
    more.insert(more.end(), {"--address", server_.address(), "--connections", "2", "--shape", "2x16", "--duration",
                             "0.2", "--warmup", "0.05", "--json", "-"});
    const ProgramResult result = RunProgram(SOFTMAX_LOADGEN, more);
    EXPECT_EQ(result.exit_code, expected_exit) << result.err;
    err_ = result.err;
    return json::parse(result.out, nullptr, false);
  }

  FakeServer server_;
  std::string err_;
};

TEST_F(ExperimentTest, ASweepOverRatesRunsEach) {
  const json document = Run({"--sweep", "rate:50..150/50"});
  ASSERT_EQ(document["runs"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(document["runs"][i]["offered_per_s"], 50.0 * static_cast<double>(i + 1));
  }
  EXPECT_EQ(document["runs"][2]["name"], "rate 150/s");
  EXPECT_THAT(err_, HasSubstr("rate 100/s"));
}

TEST_F(ExperimentTest, ASweepOverConcurrencyKeepsSoManyInFlight) {
  server_.behavior().delay_ms = 20;
  const json document = Run({"--sweep", "concurrency:1,6"});
  ASSERT_EQ(document["runs"].size(), 2u);
  // By Little's law: one or six in flight, each taking at least 20 ms.
  EXPECT_LE(document["runs"][0]["achieved_per_s"], 55);
  EXPECT_GT(document["runs"][1]["achieved_per_s"], document["runs"][0]["achieved_per_s"].get<double>() * 1.5);
  EXPECT_LE(document["runs"][1]["achieved_per_s"], 330);
}

TEST_F(ExperimentTest, RepeatsHaveConfidenceIntervals) {
  const json document = Run({"--rate", "100", "--repeats", "3"});
  ASSERT_EQ(document["runs"].size(), 3u);
  ASSERT_EQ(document["summary"].size(), 1u);
  const json& summary = document["summary"][0];
  EXPECT_EQ(summary["repeats"], 3);
  double sum = 0;
  for (const json& run : document["runs"]) sum += run["latency"]["percentiles"][0]["us"].get<double>();
  EXPECT_NEAR(summary["percentiles"][0]["mean_us"], sum / 3, 1e-6);
  EXPECT_GT(summary["percentiles"][0]["ci95_us"], 0);
  EXPECT_THAT(err_, HasSubstr("+-"));
}

TEST_F(ExperimentTest, ASearchEndsAtTheTopOfItsRangeWhereAllIsWell) {
  const json document = Run({"--search", "--slo", "p50<=10s", "--search-range", "20..60"});
  EXPECT_EQ(document["search"]["rate_per_s"], 60);
  EXPECT_EQ(document["search"]["at_upper_bound"], true);
  EXPECT_EQ(document["search"]["steps"].size(), 3u);  // 20, 40, 60
  EXPECT_THAT(err_, HasSubstr("the server may do more"));
}

TEST_F(ExperimentTest, ASearchThatFindsNothingSaysSoAndExitsWithOne) {
  const json document = Run({"--search", "--slo", "p99<=1us", "--search-range", "20..60"}, 1);
  EXPECT_TRUE(document["search"]["rate_per_s"].is_null());
  EXPECT_THAT(err_, HasSubstr("no rate kept p99<=1us"));
}

TEST_F(ExperimentTest, TheWarmupGoesOnUntilItIsStable) {
  const json run = Run({"--rate", "200", "--stable", "100"})["runs"][0];
  EXPECT_GE(run["warmup_s"], 1.5);  // three windows of 0.5 s
  EXPECT_EQ(run["sent"].get<int>() + run["dropped"].get<int>(), 40);
  const json unstable = Run({"--rate", "200", "--stable", "0.001", "--max-warmup", "1"})["runs"][0];
  EXPECT_LT(unstable["warmup_s"], 10);
  EXPECT_THAT(unstable["verdicts"].dump(), HasSubstr("warm-up was not stable"));
}

TEST_F(ExperimentTest, InterruptEndsASweepAndReportsWhatWasMeasured) {
  Program program(SOFTMAX_LOADGEN, {"--address", server_.address(), "--shape", "2x16", "--sweep", "concurrency:1,2,4",
                                    "--connections", "2", "--duration", "300", "--warmup", "0", "--json", "-"});
  EXPECT_TRUE(testing::Eventually([&] { return server_.requests() >= 50; }));
  program.Signal(SIGINT);
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out, nullptr, false);
  ASSERT_EQ(document["runs"].size(), 1u);
  EXPECT_EQ(document["runs"][0]["interrupted"], true);
  EXPECT_GT(document["runs"][0]["latency"]["count"], 0);
  EXPECT_LT(document["runs"][0]["duration_s"], 300);
}

TEST_F(ExperimentTest, OnlyTheReportIsWrittenWhereThereIsNoTerminal) {
  for (const char* repeats : {"1", "2"}) {
    const ProgramResult result = RunProgram(SOFTMAX_LOADGEN, {"--address", server_.address(), "--shape", "2x16",
                                                              "--duration", "1.2", "--repeats", repeats});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, Not(HasSubstr("\r")));
  }
}

TEST_F(ExperimentTest, TheHtmlReportHoldsTheResults) {
  const std::string path = ::testing::TempDir() + "loadgen_report.html";
  const json document = Run({"--html", path, "--rate", "100"});
  std::ifstream file(path);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(page, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("rate 100/s"));
}

TEST_F(ExperimentTest, AServerWithoutMetricsIsSaidAndTheRunGoesOn) {
  const json run = Run({"--server-metrics", "127.0.0.1:1"})["runs"][0];
  EXPECT_TRUE(run["server"].is_null());
  EXPECT_THAT(run["verdicts"].dump(), HasSubstr("127.0.0.1:1"));
  EXPECT_GT(run["latency"]["count"], 0);
}

TEST_F(ExperimentTest, AScenarioThatIsNoFileIsRefused) {
  for (const char* path : {"/dev/zero", "/tmp", "/nonexistent"}) {
    const ProgramResult result = RunProgram(SOFTMAX_LOADGEN, {"--scenario", path});
    EXPECT_EQ(result.exit_code, 2) << path;
    EXPECT_THAT(result.err, HasSubstr(path));
    EXPECT_THAT(result.err, HasSubstr("cannot be read"));
  }
}

TEST_F(ExperimentTest, AScenarioFileSaysWhatFlagsWould) {
  const std::string path = ::testing::TempDir() + "loadgen_scenario.toml";
  std::ofstream(path) << "# load\nrate = 100\narrivals = \"poisson\"\nduration = \"300ms\"\nwarmup = 0\n"
                      << "shape = [\"1x16:3\", \"2x8\"]\ndtype = [\"float32\", \"float16\"]\n";
  const ProgramResult result =
      RunProgram(SOFTMAX_LOADGEN, {"--scenario", path, "--address", server_.address(), "--json", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out, nullptr, false);
  EXPECT_EQ(document["settings"]["arrivals"], "poisson");
  EXPECT_EQ(document["settings"]["shapes"], "1x16:3,2x8:1");
  EXPECT_EQ(document["runs"][0]["classes"].size(), 4u);
  EXPECT_DOUBLE_EQ(document["runs"][0]["duration_s"], 0.3);
  std::ofstream(path) << "rte = 100\n";
  const ProgramResult wrong = RunProgram(SOFTMAX_LOADGEN, {"--scenario", path});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("rte"));
}

TEST(LoadgenUsageTest, AnImpossibleMixIsOneClearLineAndExitTwo) {
  const auto error = [](const std::vector<std::string>& arguments) {
    const ProgramResult result = RunProgram(SOFTMAX_LOADGEN, arguments);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"--rate", "0"}), HasSubstr("--rate"));
  EXPECT_THAT(error({"--rate", "5", "--in-flight", "2"}), HasSubstr("--max-in-flight"));
  EXPECT_THAT(error({"--max-in-flight", "64"}), HasSubstr("open loops"));
  EXPECT_THAT(error({"--rate", "5", "--max-in-flight", "4"}), HasSubstr("--connections 8"));
  EXPECT_THAT(error({"--rate", "5", "--schedule", "5@1s"}), HasSubstr("--schedule"));
  EXPECT_THAT(error({"--schedule", "5@x"}), HasSubstr("5@x"));
  EXPECT_THAT(error({"--schedule", "5@1s", "--duration", "2"}), HasSubstr("--duration"));
  EXPECT_THAT(error({"--trace", "/nonexistent"}), HasSubstr("/nonexistent"));
  EXPECT_THAT(error({"--rate", "5", "--stream", "--requests-per-message", "2"}), HasSubstr("closed loops"));
  EXPECT_THAT(error({"--slo", "99"}), HasSubstr("--slo 99"));
  EXPECT_THAT(error({"--search"}), HasSubstr("--slo"));
  EXPECT_THAT(error({"--search", "--slo", "p99=1ms", "--rate", "5"}), HasSubstr("--rate"));
  EXPECT_THAT(error({"--search", "--slo", "p99=1ms", "--search-range", "9..1"}), HasSubstr("9..1"));
  EXPECT_THAT(error({"--sweep", "rows:1,2"}), HasSubstr("rows:1,2"));
  EXPECT_THAT(error({"--sweep", "concurrency:1.5"}), HasSubstr("1.5"));
  EXPECT_THAT(error({"--rows", "normal:1:2"}), HasSubstr("--rows"));
  EXPECT_THAT(error({"--rows", "2147483648", "--cols", "2147483648"}), HasSubstr("--cols"));
  EXPECT_THAT(error({"--rows", "4", "--shape", "4x4"}), HasSubstr("--shape"));
  EXPECT_THAT(error({"--dtype", "float32:0"}), HasSubstr("float32:0"));
  EXPECT_THAT(error({"--op", "hardmax"}), HasSubstr("hardmax"));
  EXPECT_THAT(error({"--answer", "best"}), HasSubstr("--answer best"));
  EXPECT_THAT(error({"--shape", "4y5"}), HasSubstr("4y5"));
  EXPECT_THAT(error({"--shape", "4x0"}), HasSubstr("4x0"));
  EXPECT_THAT(error({"--payload-bytes", "6"}), HasSubstr("multiple"));
  EXPECT_THAT(error({"--axis", "2", "--shape", "4x4"}), HasSubstr("--axis 2"));
  EXPECT_THAT(error({"--scale", "0"}), HasSubstr("--scale"));
  EXPECT_THAT(error({"--processes", "9", "--connections", "8"}), HasSubstr("--connections 8"));
  EXPECT_THAT(error({"--requests-per-message", "2"}), HasSubstr("--stream"));
  EXPECT_THAT(error({"--no-such-flag"}), HasSubstr("unknown flag --no-such-flag (--help lists all flags)"));
  EXPECT_THAT(error({"--in-fligth=3"}), HasSubstr("unknown flag --in-fligth (did you mean --in-flight?)"));
  EXPECT_THAT(error({"--dtype", "int8"}), HasSubstr("int8"));
  EXPECT_THAT(error({"--server-metrics", "nowhere"}), HasSubstr("--server-metrics metrics address \"nowhere\""));
  // Not after a run of ten minutes.
  EXPECT_THAT(error({"--json", "/nonexistent/x"}),
              HasSubstr("--json /nonexistent/x: its folder /nonexistent: No such file"));
  EXPECT_THAT(error({"--html", ::testing::TempDir()}), HasSubstr("is a folder"));
  EXPECT_THAT(error({"--json", "-", "--csv", "-"}), HasSubstr("only one of --json, --csv and --html"));
  EXPECT_THAT(error({"--address", "localhost"}), HasSubstr("--address 'localhost' has no port"));
  EXPECT_THAT(error({"--address", "a:1,,b:2"}), HasSubstr("empty address"));
  EXPECT_THAT(error({"--address", "a:1,b:2", "--address", "a:1"}), HasSubstr("--address a:1 is given twice"));
  const testing::TempFolder folder;
  EXPECT_THAT(error({"--trace", folder.Write("trace", "0.5 1\n")}),
              HasSubstr("\"1\" is not the index of one of the 1 shapes"));
  EXPECT_THAT(error({"--attempts", "0"}), HasSubstr("--attempts"));
  EXPECT_THAT(error({"--attempts", "2", "--stream"}), HasSubstr("--attempts is for unary calls"));
  EXPECT_THAT(error({"--address", "a:1,b:2", "--sweep", "concurrency:2,3"}),
              HasSubstr("3 requests cannot be shared evenly by 2 addresses"));
  EXPECT_THAT(error({"--address", "a:1,b:2", "--rate", "9", "--max-in-flight", "15"}), HasSubstr("16 connections"));
  EXPECT_THAT(error({"--start-at", "1000000000"}), HasSubstr("s ago by this machine's clock"));
  EXPECT_THAT(error({"--start-at", "100000000000"}), HasSubstr("s ahead by this machine's clock, and must be"));
  EXPECT_THAT(error({"--start-at", "1", "--repeats", "2"}), HasSubstr("cannot be given with --repeats"));
  EXPECT_THAT(error({"--part", "4/4"}), HasSubstr("--part 4/4: expected INDEX/COUNT"));
  EXPECT_THAT(error({"--part", "0/10001"}), HasSubstr("--part 0/10001: expected INDEX/COUNT"));
  EXPECT_THAT(error({"--part", "1/4", "--search", "--slo", "p99=2ms"}), HasSubstr("--part cannot be given with"));
}

}  // namespace
}  // namespace softmax::client
