#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/client/support/fake_server.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace softmax::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file, nullptr, false);
}

class CommandsTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.path(name); }

  std::unique_ptr<Program> Start(const std::string& json, std::vector<std::string> more) {
    more.insert(more.end(), {"--address", server_.address(), "--shape", "4x32", "--connections", "2", "--warmup", "0.3",
                             "--duration", "1", "--json", Path(json)});
    return std::make_unique<Program>(SOFTMAX_LOADGEN, more);
  }

  // Four generators, as they would run on four machines, and the times at which their requests came.
  std::vector<std::unique_ptr<Program>> StartFour(double ahead_s) {
    const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::vector<std::unique_ptr<Program>> programs;
    for (int part = 0; part < 4; ++part) {
      programs.push_back(Start(
          "p" + std::to_string(part) + ".json",
          {"--rate", "400", "--part", std::to_string(part) + "/4", "--start-at", std::to_string(now_s + ahead_s)}));
    }
    return programs;
  }

  ProgramResult Merge() {
    return RunProgram(SOFTMAX_LOADGEN, {"merge", Path("p0.json"), Path("p1.json"), Path("p2.json"), Path("p3.json"),
                                        "--json", Path("all.json"), "--html", Path("all.html")});
  }

  FakeServer server_;
  const softmax::testing::TempFolder folder_;
};

TEST_F(CommandsTest, FourGeneratorsBeginTogetherAndMakeOneMeasurement) {
  for (const auto& program : StartFour(2)) {
    const ProgramResult result = program->Wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  const ProgramResult merged = Merge();
  EXPECT_EQ(merged.exit_code, 0) << merged.out << merged.err;
  EXPECT_THAT(merged.out, HasSubstr("4 generators"));
  const json run = ReadJson(Path("all.json"))["runs"][0];
  EXPECT_EQ(run["sent"].get<int>() + run["dropped"].get<int>(), 400);
  EXPECT_NEAR(run["offered_per_s"], 400, 1);
  EXPECT_EQ(run["name"], "rate 400/s");
  double least = 1e18;
  double most = 0;
  for (const json& of : run["generators"]) {
    EXPECT_EQ(of["run"]["sent"].get<int>() + of["run"]["dropped"].get<int>(), 100);
    least = std::min(least, of["run"]["began_s"].get<double>());
    most = std::max(most, of["run"]["began_s"].get<double>());
  }
  EXPECT_LT(most - least, 0.005) << "by one clock";
  std::ifstream page(Path("all.html"));
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(page), {}), HasSubstr("drawGenerators"));
}

TEST_F(CommandsTest, AGeneratorThatIsKilledIsNamed) {
  const auto programs = StartFour(1.5);
  ASSERT_TRUE(testing::Eventually([&] { return server_.requests() > 0; }));
  programs[2]->Signal(SIGKILL);
  for (const auto& program : programs) program->Wait();
  const ProgramResult merged = Merge();
  EXPECT_EQ(merged.exit_code, 1) << merged.out;
  EXPECT_THAT(merged.out, HasSubstr("No result of " + Path("p2.json") + ": "));
  EXPECT_THAT(merged.out, HasSubstr("Part 2 of 4 is missing: 25.0 %"));
}

TEST_F(CommandsTest, ACommandThatIsNoneIsNamed) {
  const ProgramResult result = RunProgram(SOFTMAX_LOADGEN, {"comapre", "a.json", "b.json"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("comapre: expected merge, compare or flags"));
}

// With a "ssh" that runs its words here, and a clock that is right.
TEST_F(CommandsTest, TheScriptForSshMakesOneMeasurement) {
  std::ofstream(Path("ssh")) << "#!/bin/sh\nshift\nexec sh -c \"$*\"\n";
  const std::string bin = std::string(SOFTMAX_LOADGEN).substr(0, std::string(SOFTMAX_LOADGEN).rfind('/'));
  const std::string run = "cd " + Path("") + " && chmod +x ssh && PATH=" + Path("") + ":" + bin +
                          ":$PATH SECONDS_AHEAD=2 " + SOFTMAX_OVER_SSH + " 'one two' --address " + server_.address() +
                          " --shape 4x32 --rate 200 --duration 1 --connections 1 --slo 'p99<=10s'";
  const ProgramResult result = RunProgram("/bin/sh", {"-c", run});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("two: its clock is "));
  const json merged = ReadJson(Path("load.json"))["runs"][0];
  EXPECT_EQ(merged["sent"].get<int>() + merged["dropped"].get<int>(), 200);
  EXPECT_EQ(merged["generators"].size(), 2u);
}

// A real comparison, of a build with itself and with one that answers later.
TEST_F(CommandsTest, CompareTellsASlowerServer) {
  const auto run = [&](const char* name) {
    const ProgramResult result = Start(name, {"--rate", "200", "--repeats", "4"})->Wait();
    ASSERT_EQ(result.exit_code, 0) << result.err;
  };
  run("a.json");
  server_.behavior().delay_ms = 20;
  run("b.json");
  const auto compare = [&](const std::string& rule) {
    return RunProgram(SOFTMAX_LOADGEN,
                      {"compare", Path("a.json"), Path("b.json"), "--fail-if", rule, "--html", Path("c.html")});
  };
  const ProgramResult slower = compare("p50>+50%");
  EXPECT_EQ(slower.exit_code, 1) << slower.out << slower.err;
  EXPECT_THAT(slower.out, HasSubstr("FAILED     p50>+50%, rate 200/s: +"));
  const ProgramResult kept = compare("p50<-50%");
  EXPECT_EQ(kept.exit_code, 0) << kept.out << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("kept       p50<-50%"));
  const ProgramResult wrong = compare("p98>+5%");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("expected rate, goodput, mean, p50"));
  const ProgramResult missing = RunProgram(SOFTMAX_LOADGEN, {"compare", Path("a.json"), Path("none.json")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr(Path("none.json") + ": "));
}

}  // namespace
}  // namespace softmax::client
