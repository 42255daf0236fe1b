// The load generator against several servers, of which one is killed in the middle and comes back.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/loadgen/scrape/server_metrics.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"
#include "tests/support/run_program.h"

namespace softmax::client {
namespace {

using nlohmann::json;
using softmax::testing::ServerProcess;

// A request waits for its batch to be so old, so that some are on their way whenever a server is killed.
constexpr char kHeldBatches[] = "--max-queue-delay=100ms";

struct Requests {
  double answered = 0;
  double in_flight = 0;
};

Requests RequestsOf(const ServerProcess& server) {
  const auto metrics = FetchMetrics(server.metrics(), std::chrono::seconds(10));
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  Requests requests;
  for (const MetricSample& sample : metrics.ok() ? metrics->samples : std::vector<MetricSample>()) {
    if (sample.name == "softmax_requests_total" && sample.Label("code") == "OK") requests.answered += sample.value;
    if (sample.name == "softmax_requests_in_flight") requests.in_flight = sample.value;
  }
  return requests;
}

TEST(FailoverTest, NoRequestFailsWhenOneOfTwoServersIsKilledUnderAnOpenLoopAndStartedAgain) {
  auto victim = std::make_unique<ServerProcess>(std::vector<std::string>{kHeldBatches});
  const ServerProcess other({kHeldBatches});
  const std::string address = victim->target();

  Program program(SOFTMAX_LOADGEN,
                  {"--address=" + address, "--address=" + other.target(), "--attempts=5", "--rate=200", "--duration=8",
                   "--warmup=0.3", "--shape=4x32", "--verify=0.2", "--connections=2", "--json=-"});
  // In the middle of a batch, which comes to have ten.
  EXPECT_TRUE(testing::Eventually([&] {
    const Requests requests = RequestsOf(*victim);
    return requests.answered > 200 && requests.in_flight >= 2 && requests.in_flight <= 6;
  }));
  victim->Signal(SIGKILL);
  victim->Wait(10000);
  const double until = RequestsOf(other).answered + 100;
  EXPECT_TRUE(testing::Eventually([&] { return RequestsOf(other).answered > until; }));
  victim = std::make_unique<ServerProcess>(std::vector<std::string>{kHeldBatches, "--address=" + address});
  ASSERT_EQ(victim->target(), address) << victim->Log();
  // It counts from nothing, and is used again while the load lasts.
  EXPECT_TRUE(testing::Eventually([&] { return RequestsOf(*victim).answered > 50; }));

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
  // The other one served in the place of the one that was killed.
  EXPECT_GT(killed["answered"], 100);
  EXPECT_GT(lasting["answered"], killed["answered"]);
  std::printf("%d requests, %d retries; killed server %d answers, the other %d\n", run["sent"].get<int>(),
              run["retries"].get<int>(), killed["answered"].get<int>(), lasting["answered"].get<int>());
}

}  // namespace
}  // namespace softmax::client
