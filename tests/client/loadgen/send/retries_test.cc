#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/support/closing_proxy.h"
#include "tests/client/support/fake_server.h"
#include "tests/support/run_program.h"

namespace softmax::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// 100 requests at known times, without a warm-up; the first run of the report.
json RunOpen(const std::string& address, std::vector<std::string> more, int exit_code) {
  more.insert(more.end(), {"--address", address, "--rate", "200", "--duration", "0.5", "--warmup", "0", "--shape",
                           "4x32", "--connections", "2", "--json", "-"});
  const ProgramResult result = RunProgram(SOFTMAX_LOADGEN, more);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  const json document = json::parse(result.out, nullptr, false);
  if (!document.is_object()) {
    ADD_FAILURE() << result.err;
    return {};
  }
  return document["runs"][0];
}

// Of the 100, what a busy machine did not send at the last moment has been dropped.
int SentOf(const json& run) {
  const int sent = run["sent"];
  EXPECT_EQ(sent + run["dropped"].get<int>(), 100);
  EXPECT_GT(sent, 50);
  return sent;
}

TEST(RetriesTest, WhatFailsIsMadeAgainAndCounted) {
  FakeServer server;
  server.behavior().fail_next = 3;
  const json run = RunOpen(server.address(), {"--attempts", "5"}, 0);
  const int sent = SentOf(run);
  EXPECT_EQ(run["latency"]["count"], sent);
  EXPECT_EQ(run["errors"], json::object());
  EXPECT_EQ(run["retries"], 3);
  EXPECT_EQ(run["retried"], json({{"UNAVAILABLE", 3}}));
  EXPECT_EQ(run["attempts"], sent + 3);
  EXPECT_EQ(server.requests(), sent + 3);
  EXPECT_EQ(run["addresses"],
            json::array({{{"address", server.address()}, {"attempts", sent + 3}, {"answered", sent}, {"failed", 3}}}));
}

TEST(RetriesTest, WhatMeetsAConnectionThatIsBeingClosedIsSentAgainWithoutThemToo) {
  FakeServer server;
  ClosingProxy proxy(server.address());
  proxy.CloseNext(2, ClosingProxy::Way::kGoAway);
  const json run = RunOpen(proxy.address(), {}, 0);
  EXPECT_EQ(proxy.closed(), 2);
  EXPECT_EQ(run["errors"], json::object());
  EXPECT_EQ(run["attempts"], SentOf(run));
  EXPECT_EQ(run["retries"], 0);
}

TEST(RetriesTest, WithoutThemEveryFailureIsAnError) {
  FakeServer server;
  server.behavior().fail_next = 3;
  const json run = RunOpen(server.address(), {}, 1);
  EXPECT_EQ(run["errors"], json({{"UNAVAILABLE", 3}}));
  EXPECT_EQ(run["retries"], 0);
  EXPECT_EQ(run["attempts"], SentOf(run));
  EXPECT_EQ(run["latency"]["count"], SentOf(run) - 3);
}

TEST(RetriesTest, ABusyServerIsAskedAgainOnlyWhereItSaysWhen) {
  FakeServer silent;
  silent.behavior().refuse = true;
  const json refused = RunOpen(silent.address(), {"--attempts", "5"}, 1);
  EXPECT_EQ(refused["retries"], 0);
  EXPECT_EQ(refused["errors"], json({{"RESOURCE_EXHAUSTED", SentOf(refused)}}));

  FakeServer advising;
  advising.behavior().fail_code = 8;  // RESOURCE_EXHAUSTED
  advising.behavior().pushback_ms = 20;
  advising.behavior().fail_next = 4;
  const json run = RunOpen(advising.address(), {"--attempts", "5"}, 0);
  EXPECT_EQ(run["retried"], json({{"RESOURCE_EXHAUSTED", 4}}));
  // Latency is that of all attempts and of the pause that the server asked for.
  EXPECT_GE(run["latency"]["max_us"], 20000);
  EXPECT_GE(run["service_time"]["max_us"], 20000);
}

TEST(RetriesTest, AttemptsEndAndTheBudgetIsKept) {
  FakeServer server;
  server.behavior().fail_next = 1000000;
  const json run = RunOpen(server.address(), {"--attempts", "3"}, 1);
  EXPECT_EQ(run["errors"], json({{"UNAVAILABLE", SentOf(run)}}));
  EXPECT_EQ(run["attempts"], 3 * SentOf(run));
  EXPECT_EQ(run["throttled"], 0);
  // Half of the 1000 tokens pays for 500 failures, whatever --attempts says.
  const json throttled = RunOpen(server.address(), {"--attempts", "1000", "--timeout", "20"}, 1);
  EXPECT_EQ(throttled["errors"], json({{"UNAVAILABLE", SentOf(throttled)}}));
  EXPECT_EQ(throttled["throttled"], SentOf(throttled));
  EXPECT_LE(throttled["retries"], 500);
  EXPECT_GE(throttled["retries"], 499);
}

TEST(RetriesTest, AClosedLoopMakesThemToo) {
  FakeServer server;
  server.behavior().fail_next = 6;
  const ProgramResult result = RunProgram(
      SOFTMAX_LOADGEN, {"--address", server.address(), "--attempts", "5", "--connections", "2", "--in-flight", "2",
                        "--shape", "4x32", "--warmup", "0", "--duration", "0.5", "--json", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json run = json::parse(result.out, nullptr, false)["runs"][0];
  EXPECT_EQ(run["retries"], 6);
  EXPECT_THAT(result.err, HasSubstr("retries    6, of "));
  EXPECT_THAT(result.err, HasSubstr("UNAVAILABLE 6 failed and were made again"));
}

TEST(AddressesTest, EveryAddressGetsItsShareOfEitherLoop) {
  FakeServer a;
  FakeServer b;
  for (const char* method : {"--no-verify", "--stream"}) {
    const json run = RunOpen(a.address() + "," + b.address(), {method}, 0);
    ASSERT_EQ(run["addresses"].size(), 2u);
    EXPECT_EQ(run["connections"], 4);
    const json& first = run["addresses"][0];
    const json& second = run["addresses"][1];
    EXPECT_EQ(first["attempts"].get<int>() + second["attempts"].get<int>(), SentOf(run));
    EXPECT_LE(std::abs(first["attempts"].get<int>() - second["attempts"].get<int>()), 1) << run["addresses"];
    EXPECT_EQ(first["answered"], first["attempts"]);
    EXPECT_EQ(second["answered"], second["attempts"]);
  }
  const ProgramResult closed = RunProgram(
      SOFTMAX_LOADGEN, {"--target", "ipv4:" + a.address() + "," + b.address(), "--connections", "2", "--in-flight", "1",
                        "--shape", "4x32", "--warmup", "0", "--duration", "0.5", "--processes", "2", "--csv", "-"});
  EXPECT_EQ(closed.exit_code, 0) << closed.err;
  EXPECT_THAT(closed.err, HasSubstr("address    ipv4:" + a.address() + ": "));
  EXPECT_THAT(closed.out, HasSubstr("attempts,retries,address_attempts,address_answered,address_failed,"));
  EXPECT_THAT(closed.out, HasSubstr("\"ipv4:" + a.address() + ",ipv4:" + b.address() + "\""));
}

TEST(AddressesTest, AServerThatIsNotServingGetsNothingAndIsNamedAtTheStart) {
  FakeServer serving;
  FakeServer draining;
  draining.behavior().serving = false;
  const ProgramResult result =
      RunProgram(SOFTMAX_LOADGEN, {"--address", serving.address() + "," + draining.address(), "--connect-timeout", "1",
                                   "--connections", "1", "--threads", "1"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("no connection to " + draining.address()));
  EXPECT_THAT(result.err, HasSubstr("does not report that it is serving"));
}

}  // namespace
}  // namespace softmax::client
