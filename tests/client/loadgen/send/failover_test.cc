// The load generator against several servers, of which one is killed in the middle and comes back.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/support/run_program.h"
#include "tests/end_to_end/server_process.h"

namespace softmax::client {
namespace {

using nlohmann::json;
using softmax::testing::ServerProcess;

// A request waits for its batch to be so old, so that some are on their way whenever a server is killed.
constexpr char kHeldBatches[] = "--max-queue-delay=100ms";

TEST(FailoverTest, NoRequestFailsWhenOneOfTwoServersIsKilledUnderAnOpenLoopAndStartedAgain) {
  auto victim = std::make_unique<ServerProcess>(std::vector<std::string>{kHeldBatches});
  const ServerProcess other({kHeldBatches});
  const std::string address = victim->target();
  ASSERT_FALSE(address.empty() || other.target().empty()) << victim->Log() << other.Log();

  Program program(SOFTMAX_LOADGEN, {"--address", address,         "--address", other.target(), "--attempts",
                                    "5",         "--rate",        "200",       "--duration",   "8",
                                    "--warmup",  "0.3",           "--shape",   "4x32",         "--verify",
                                    "0.2",       "--connections", "2",         "--json",       "-"});
  // The load generator says nothing while it runs, and when it is killed within the window does not matter.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  victim->Signal(SIGKILL);
  victim->Wait(10000);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  victim = std::make_unique<ServerProcess>(std::vector<std::string>{kHeldBatches, "--address=" + address});
  ASSERT_EQ(victim->target(), address) << victim->Log();

  const ProgramResult result = program.Wait();
  const json document = json::parse(result.out, nullptr, false);
  ASSERT_TRUE(document.is_object()) << result.err;
  const json run = document["runs"][0];
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(run["errors"], json::object()) << run["first_error"];
  EXPECT_EQ(run["wrong"], 0);
  EXPECT_EQ(run["sent"].get<int>() + run["dropped"].get<int>(), 1600);
  EXPECT_EQ(run["latency"]["count"], run["sent"]);
  EXPECT_GT(run["retries"], 0) << result.err;
  EXPECT_EQ(run["retries"], run["retried"]["UNAVAILABLE"]);
  EXPECT_EQ(run["attempts"].get<int>(), run["sent"].get<int>() + run["retries"].get<int>());

  ASSERT_EQ(run["addresses"].size(), 2u);
  const json& killed = run["addresses"][0];
  const json& lasting = run["addresses"][1];
  EXPECT_EQ(killed["address"], address);
  EXPECT_EQ(killed["failed"], run["retries"]);
  EXPECT_EQ(lasting["failed"], 0);
  EXPECT_EQ(killed["answered"].get<int>() + lasting["answered"].get<int>(), run["sent"].get<int>());
  // The one that was killed served before and after, and the other one in its place.
  EXPECT_GT(killed["answered"], 100);
  EXPECT_GT(lasting["answered"], killed["answered"]);
  std::printf("%d requests, %d retries; killed server %d answers, the other %d\n", run["sent"].get<int>(),
              run["retries"].get<int>(), killed["answered"].get<int>(), lasting["answered"].get<int>());
}

}  // namespace
}  // namespace softmax::client
