// The names that client/loadgen/scrape/server_metrics.cc looks for are those that a real server publishes.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/loadgen/scrape/server_metrics.h"
#include "client/softmax_client/softmax_client.h"
#include "tests/end_to_end/server_process.h"

namespace softmax::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(30);
constexpr int kRequests = 200;

TEST(ServerMetrics, TellWhatARealServerDidInTheWindow) {
  softmax::testing::ServerProcess server({});
  auto client = Client::Create({.target = server.target()});
  ASSERT_TRUE(client.ok()) << client.status();
  const std::vector<float> values(3 * 40, 1.0f);
  const std::vector<std::int64_t> shape = {3, 40};
  ASSERT_TRUE((*client)->Softmax(ViewOf(values, shape)).ok());  // before the window

  const absl::StatusOr<MetricsSnapshot> before = FetchMetrics(server.metrics(), kTimeout);
  ASSERT_TRUE(before.ok()) << before.status();
  for (int i = 0; i < kRequests; ++i) ASSERT_TRUE((*client)->Softmax(ViewOf(values, shape)).ok());
  const absl::StatusOr<MetricsSnapshot> after = FetchMetrics(server.metrics(), kTimeout);
  ASSERT_TRUE(after.ok()) << after.status();

  const nlohmann::json delta = ServerDelta(*before, *after);
  SCOPED_TRACE(delta.dump(1));
  EXPECT_EQ(delta["requests"], kRequests);
  EXPECT_EQ(delta["requests_by_code"], (nlohmann::json{{"OK", kRequests}}));
  EXPECT_EQ(delta["rows"], 3 * kRequests);
  EXPECT_EQ(delta["input_bytes"], 3 * 40 * 4 * kRequests);
  EXPECT_EQ(delta["output_bytes"], 3 * 40 * 4 * kRequests);
  EXPECT_EQ(delta["copied_in_bytes"], delta["input_bytes"]);
  // One at a time: each request is a batch of its own.
  EXPECT_EQ(delta["batches"]["count"], kRequests);
  EXPECT_EQ(delta["batches"]["rows"]["mean"], 3.0);
  EXPECT_EQ(delta["batches"]["requests"]["p99"], 1.0);
  EXPECT_EQ(delta["batches"]["bytes"]["mean"], 2.0 * 3 * 40 * 4);
  EXPECT_EQ(delta["closing"], (nlohmann::json{{"idle", kRequests}}));
  EXPECT_EQ(delta["rejected"], nlohmann::json::object());
  for (const char* stage : {"request", "batch", "execution"}) {
    EXPECT_EQ(delta["stages"][stage]["count"], kRequests) << stage;
    EXPECT_GT(delta["stages"][stage]["mean_us"].get<double>(), 0) << stage;
    EXPECT_GE(delta["stages"][stage]["p99_us"], delta["stages"][stage]["p50_us"]) << stage;
  }
  EXPECT_GE(delta["stages"]["request"]["mean_us"], delta["stages"]["execution"]["mean_us"]);
  EXPECT_GE(delta["cpu_cores"].get<double>(), 0);
  EXPECT_GT(delta["resident_bytes"].get<double>(), 1 << 20);
  EXPECT_GT(delta["window_s"].get<double>(), 0);
  EXPECT_FALSE(delta["backend"].get<std::string>().empty());
  EXPECT_FALSE(delta["version"].get<std::string>().empty());
  EXPECT_EQ(delta["warnings"], nlohmann::json::array());
}

}  // namespace
}  // namespace softmax::client
