// The load generator against a real server.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/end_to_end/server_process.h"
#include "tests/support/run_program.h"

namespace softmax::client {
namespace {

using nlohmann::json;

TEST(LoadgenLiveTest, WhatTheServerCountedIsWhatWasSent) {
  softmax::testing::ServerProcess server({});
  for (const char* method : {"--verify=1", "--stream"}) {
    const ProgramResult result =
        RunProgram(SOFTMAX_LOADGEN,
                   {"--address=" + server.target(), "--rate=200", "--duration=1", "--warmup=0.2", "--shape=3x40:2",
                    "--shape=1x7", "--dtype=float32,bfloat16", "--op=softmax,log_softmax",
                    "--answer=tensor,top3+log-sum-exp", "--server-metrics=" + server.metrics(), "--json=-", method});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json run = json::parse(result.out, nullptr, false)["runs"][0];
    EXPECT_EQ(run["sent"].get<int>() + run["dropped"].get<int>(), 200);
    EXPECT_EQ(run["wrong"], 0);
    EXPECT_GT(run["verified"], 0);
    ASSERT_TRUE(run["server"].is_object()) << run["verdicts"];
    // Both ends of the window are read a little late, and the warm-up sent 40 more.
    EXPECT_GT(run["server"]["requests"], 100);
    EXPECT_LE(run["server"]["requests"], 240);
    EXPECT_GT(run["server"]["stages"]["execution"]["p99_us"], 0);
    EXPECT_EQ(run["classes"].size(), 16u);
  }
}

// Every answer is judged against the reference in double precision, as the native contract's are.
TEST(LoadgenLiveTest, TheOpenInferenceProtocolsSmallAnswersAreVerified) {
  softmax::testing::ServerProcess server({});
  const ProgramResult result = RunProgram(
      SOFTMAX_LOADGEN,
      {"--address=" + server.target(), "--protocol=oip", "--rate=200", "--duration=1", "--warmup=0", "--shape=3x40x2",
       "--axis=1", "--scale=0.5", "--dtype=float32,float16,bfloat16,float64", "--op=softmax,log_softmax",
       "--answer=tensor,top3,log-sum-exp,entropy,top40+log-sum-exp+entropy", "--verify=1", "--json=-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = json::parse(result.out, nullptr, false)["runs"][0];
  EXPECT_EQ(run["wrong"], 0);
  EXPECT_EQ(run["errors"], json::object());
  EXPECT_EQ(run["verified"], run["sent"]);
  ASSERT_EQ(run["classes"].size(), 40u);
  for (const json& of : run["classes"]) EXPECT_GT(of["latency"]["count"], 0) << of;
}

// What gRPC holds back for company when the time is up has to be sent all the same: each of these runs is cut off in
// the middle of a burst, and one in twenty used to wait for its last messages until it gave up.
TEST(LoadgenLiveTest, AStreamsLastMessagesAreAnsweredHoweverShortTheRun) {
  softmax::testing::ServerProcess server({});
  for (int i = 0; i < 50; ++i) {
    const std::string duration = "0.0" + std::to_string(1 + i % 8);
    const ProgramResult result = RunProgram(
        SOFTMAX_LOADGEN, {"--address", server.target(), "--stream", "--connections", "4", "--in-flight", "64",
                          "--payload-bytes", "1024", "--warmup", "0.02", "--duration", duration, "--json", "-"});
    const json run = json::parse(result.out, nullptr, false)["runs"][0];
    ASSERT_TRUE(run.is_object()) << result.err;
    // On a busy machine a window may end before the first answer: no run to judge, and no error.
    ASSERT_EQ(run["errors"], json::object()) << run;
  }
}

}  // namespace
}  // namespace softmax::client
