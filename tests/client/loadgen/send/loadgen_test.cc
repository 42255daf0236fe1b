#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/operations.h"
#include "tests/client/support/fake_server.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace softmax::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The program against a fake server in this process.
class LoadgenTest : public ::testing::Test {
 protected:
  // What every run has, but for what `more` says itself.
  std::vector<std::string> Arguments(std::vector<std::string> more) {
    const std::vector<std::pair<std::string, std::string>> usual = {{"--address", server_.address()},
                                                                    {"--connections", "2"},
                                                                    {"--in-flight", "2"},
                                                                    {"--duration", "0.5"},
                                                                    {"--warmup", "0.1"},
                                                                    {"--shape", "4x32"}};
    for (const auto& [name, value] : usual) {
      if (std::find(more.begin(), more.end(), name) != more.end()) continue;
      more.insert(more.end(), {name, value});
    }
    return more;
  }
  // From the first request to the last one so far.
  double SecondsOfLoad() const {
    const auto arrivals = server_.arrivals();
    return arrivals.empty() ? 0 : std::chrono::duration<double>(arrivals.back() - arrivals.front()).count();
  }
  ProgramResult Run(std::vector<std::string> more) { return RunProgram(SOFTMAX_LOADGEN, Arguments(std::move(more))); }

  FakeServer server_;
};

// The first run of a JSON report.
nlohmann::json FirstRun(const std::string& text) {
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded() || document["schema"] != 1 || document["runs"].empty()) {
    ADD_FAILURE() << "not a report of schema 1 with a run: " << text;
    return {};
  }
  return document["runs"][0];
}

std::uint64_t Calls(const nlohmann::json& run) { return run["latency"]["count"]; }

TEST_F(LoadgenTest, AllTypesOperationsAndAxesAreVerified) {
  for (const char* dtype : {"float32", "float16", "bfloat16", "float64"}) {
    for (const kernels::OperationTraits& traits : kernels::kOperations) {
      const char* const op = traits.name;
      const ProgramResult result = Run({"--dtype", dtype, "--op", op, "--axis", "0", "--scale", "0.5", "--output-dtype",
                                        "float32", "--duration", "0.5"});
      EXPECT_EQ(result.exit_code, 0) << dtype << op << result.out << result.err;
    }
  }
}

// What the run moved, and what the machine did for it.
TEST_F(LoadgenTest, FiguresOfBytesAndProcessorsAreThoseOfTheRun) {
  const ProgramResult result = Run({"--json", "-", "--server-pid", std::to_string(getpid())});
  const nlohmann::json run = FirstRun(result.out);
  EXPECT_NEAR(run["gb_per_s"].get<double>() / (run["achieved_per_s"].get<double>() * 4 * 32 * 4 / 1e9), 1, 1e-3);
  EXPECT_GT(run["generator"]["cpu_cores"], 0.0);
  EXPECT_GT(run["server_cores"], 0.0);
  EXPECT_GT(run["machine_busy"], 0.0);
  EXPECT_LE(run["machine_busy"], 1.0);
}

TEST_F(LoadgenTest, WrongAnswersExitWithOneAndAreCounted) {
  server_.behavior().wrong_values = true;
  for (const std::vector<std::string>& how : {std::vector<std::string>{}, {"--stream"}, {"--processes", "2"}}) {
    ProgramResult result = Run(how);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.out, HasSubstr("expected"));
    EXPECT_THAT(result.out, Not(HasSubstr(": 0 wrong")));
  }
  EXPECT_EQ(Run({"--allow-errors"}).exit_code, 1);  // which forgives errors, not wrong answers
  EXPECT_EQ(Run({"--no-verify"}).exit_code, 0);     // only sizes are looked at
}

TEST_F(LoadgenTest, AnAnswerThatBelongsToAnotherRequestIsWrong) {
  server_.behavior().swap_answers = true;
  const ProgramResult result = Run({"--verify", "1"});
  EXPECT_EQ(result.exit_code, 1) << result.out;
}

TEST_F(LoadgenTest, ErrorsAreThoseOfTheRequestsThatWereSentInTheWindow) {
  server_.behavior().refuse = true;
  const ProgramResult result =
      RunProgram(SOFTMAX_LOADGEN, {"--address", server_.address(), "--shape", "4x32", "--rate", "200", "--warmup",
                                   "0.5", "--duration", "0.5", "--json", "-"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("queue: full"));
  const nlohmann::json run = FirstRun(result.out);
  EXPECT_EQ(run["errors"]["RESOURCE_EXHAUSTED"], run["sent"]);
  EXPECT_EQ(Calls(run), 0u);
  EXPECT_GT(run["warmup_errors"]["RESOURCE_EXHAUSTED"], 50);
}

TEST_F(LoadgenTest, AllowErrorsForgivesThemWhenThereAreAnswersToo) {
  server_.behavior().delay_ms = 60;
  const std::vector<std::string> how = {"--timeout", "0.03", "--allow-errors", "--duration", "1"};
  Program program(SOFTMAX_LOADGEN, Arguments(how));
  EXPECT_TRUE(testing::Eventually([&] { return SecondsOfLoad() > 0.4; }));
  server_.behavior().delay_ms = 0;
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("DEADLINE_EXCEEDED"));
}

// Small ones, which are copied, and large ones.
TEST_F(LoadgenTest, StreamsCarrySeveralRequestsAMessage) {
  const ProgramResult result = Run({"--stream", "--in-flight", "12", "--requests-per-message", "4", "--verify", "1",
                                    "--shape", "20x1000,3x77", "--json", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(server_.largest_message(), 4);
  EXPECT_THAT(result.err, HasSubstr("p99.9 us"));
  const nlohmann::json run = FirstRun(result.out);
  EXPECT_GT(Calls(run), 10u);
  EXPECT_GE(run["verified"], Calls(run));
}

TEST_F(LoadgenTest, BrokenStreamsAreErrorsAndItStillEnds) {
  server_.behavior().break_streams = true;
  const ProgramResult result = Run({"--stream"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("ABORTED"));
}

TEST_F(LoadgenTest, AMixReportsEachShape) {
  for (std::vector<std::string> flags :
       {std::vector<std::string>{"--shape", "1x10:9", "--shape", "2x3x4"}, {"--shape", "1x10:9,2x3x4"}}) {
    flags.insert(flags.end(), {"--address", server_.address(), "--duration", "0.5", "--warmup", "0"});
    const ProgramResult result = RunProgram(SOFTMAX_LOADGEN, flags);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("1x10 "));
    EXPECT_THAT(result.out, HasSubstr("2x3x4 "));
    EXPECT_THAT(result.out, HasSubstr("total "));
  }
}

TEST_F(LoadgenTest, CsvGrowsByALineARunUnderOneHeader) {
  const softmax::testing::TempFolder folder;
  const std::string path = folder.path("runs.csv");
  EXPECT_EQ(Run({"--csv", path, "--duration", "0.1"}).exit_code, 0);
  EXPECT_EQ(Run({"--csv", path, "--duration", "0.1"}).exit_code, 0);
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  const auto commas = [](const std::string& text) { return std::count(text.begin(), text.end(), ','); };
  EXPECT_EQ(lines[0].rfind("address,", 0), 0u);
  EXPECT_EQ(commas(lines[0]), commas(lines[1]));
  EXPECT_NE(Run({"--csv", "/nonexistent/x.csv", "--duration", "0.1"}).exit_code, 0);
}

TEST(LoadgenProgramTest, AnUnreachableServerIsExitThree) {
  const ProgramResult result =
      RunProgram(SOFTMAX_LOADGEN, {"--address", "127.0.0.1:1", "--connect-timeout", "0.3", "--processes", "2"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("no connection to 127.0.0.1:1"));
}

TEST(LoadgenProgramTest, HelpAndVersionAreNoErrors) {
  const ProgramResult help = RunProgram(SOFTMAX_LOADGEN, {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--duration TIME=10s"));
  const ProgramResult version = RunProgram(SOFTMAX_LOADGEN, {"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, HasSubstr("softmax-loadgen "));
}

}  // namespace
}  // namespace softmax::client
