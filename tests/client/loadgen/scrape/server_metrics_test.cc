#include "client/loadgen/scrape/server_metrics.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "client/loadgen/scrape/metrics_window.h"

namespace softmax::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

MetricsSnapshot Snapshot(std::string_view text, double at_seconds) {
  absl::StatusOr<std::vector<MetricSample>> samples = ParseMetrics(text);
  EXPECT_TRUE(samples.ok()) << samples.status();
  const auto since =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(at_seconds));
  return {"host:9400", std::chrono::steady_clock::time_point(since),
          samples.ok() ? *samples : std::vector<MetricSample>()};
}

json Delta(std::string_view before, std::string_view after) {
  return ServerDelta(Snapshot(before, 100), Snapshot(after, 102));
}

TEST(MetricsText, ReadsNamesLabelsAndValues) {
  const auto samples = ParseMetrics(
      "# HELP a help\n# TYPE a counter\n\n"
      "a 1\n"
      "  b_total{x=\"1\", y=\"two words\",} 2.5e3 1700000000000\r\n"
      "c:d{le=\"+Inf\"} +Inf\n"
      "e -Inf\n"
      "f NaN");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 5u);
  EXPECT_EQ((*samples)[0].name, "a");
  EXPECT_EQ((*samples)[0].value, 1);
  EXPECT_EQ((*samples)[1].Label("x"), "1");
  EXPECT_EQ((*samples)[1].Label("y"), "two words");
  EXPECT_EQ((*samples)[1].Label("z"), "");
  EXPECT_EQ((*samples)[1].value, 2500);
  EXPECT_EQ((*samples)[2].value, std::numeric_limits<double>::infinity());
  EXPECT_EQ((*samples)[3].value, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan((*samples)[4].value));
}

TEST(MetricsText, ReadsEscapedLabels) {
  const auto samples = ParseMetrics("a{x=\"q\\\" b\\\\ n\\n } , = é\"} 1\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ((*samples)[0].Label("x"), "q\" b\\ n\n } , = é");
}

TEST(MetricsText, RefusesWhatIsNotItsFormatAndNamesTheLine) {
  const std::string hostile[] = {"a",
                                 "a{",
                                 "a{x",
                                 "a{x=",
                                 "a{x=1} 1",
                                 "a{x=\"1} 1",
                                 "a{x=\"1\\",
                                 "a{x=\"1\" 1",
                                 "a{,} 1",
                                 "1a 1",
                                 "a one",
                                 "a 1 soon",
                                 "a 1 2 3",
                                 "{x=\"1\"} 1",
                                 "<html></html>",
                                 "a 0x10",
                                 "a 1e",
                                 "a +-1",
                                 "a{x=\"1\"}",
                                 "a{x=\"1\"y=\"2\"} 1",
                                 "\xff\xfe 1",
                                 std::string("a\0b 1", 5)};
  for (const std::string& line : hostile) {
    const auto samples = ParseMetrics(absl::StrCat("# fine\nfine 1\n", line, "\nfine 2\n"));
    ASSERT_FALSE(samples.ok()) << line;
    EXPECT_THAT(std::string(samples.status().message()), HasSubstr("line 3 ")) << line;
  }
}

TEST(MetricsText, RefusesMoreSamplesThanAnyServerHas) {
  std::string text;
  for (int i = 0; i <= 200'000; ++i) text += "a 1\n";
  EXPECT_EQ(ParseMetrics(text).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ServerDelta, CountsOnlyTheWindow) {
  const json delta = Delta(
      "softmax_requests_total{method=\"Softmax\",code=\"OK\"} 100\n"
      "softmax_requests_total{method=\"SoftmaxStream\",code=\"OK\"} 5\n"
      "softmax_requests_total{method=\"GetServerInfo\",code=\"OK\"} 1\n"
      "softmax_batches_total{reason=\"idle\"} 40\nsoftmax_batches_total{reason=\"full\"} 2\n"
      "softmax_host_copied_bytes_total{direction=\"in\"} 1000\nprocess_cpu_seconds_total 7\n",
      "softmax_requests_total{code=\"OK\",method=\"Softmax\"} 160\n"
      "softmax_requests_total{method=\"SoftmaxStream\",code=\"OK\"} 15\n"
      "softmax_requests_total{method=\"Softmax\",code=\"DEADLINE_EXCEEDED\"} 3\n"
      "softmax_requests_total{method=\"GetServerInfo\",code=\"OK\"} 9\n"
      "softmax_batches_total{reason=\"idle\"} 50\nsoftmax_batches_total{reason=\"full\"} 2\n"
      "softmax_host_copied_bytes_total{direction=\"in\"} 4096\n"
      "softmax_host_copied_bytes_total{direction=\"out\"} 12\nprocess_cpu_seconds_total 10\n");
  EXPECT_EQ(delta["window_s"], 2.0);
  EXPECT_EQ(delta["requests"], 73);
  EXPECT_EQ(delta["requests_by_code"], (json{{"OK", 70}, {"DEADLINE_EXCEEDED", 3}}));
  EXPECT_EQ(delta["closing"], (json{{"idle", 10}})) << "a reason that did not happen is no reason";
  EXPECT_EQ(delta["copied_in_bytes"], 3096);
  EXPECT_EQ(delta["copied_out_bytes"], 12);
  EXPECT_EQ(delta["cpu_cores"], 1.5);
  EXPECT_EQ(delta["warnings"], json::array());
  EXPECT_TRUE(delta["rows"].is_null()) << "not told is not zero";
}

// 100 observations before; in the window 10 up to 1 ms and 90 above it, up to 2.5 ms.
constexpr const char* kStageBefore =
    "softmax_batch_wait_duration_seconds_bucket{le=\"0.001\"} "
    "100\nsoftmax_batch_wait_duration_seconds_bucket{le=\"0.0025\"} 100\n"
    "softmax_batch_wait_duration_seconds_bucket{le=\"+Inf\"} 100\nsoftmax_batch_wait_duration_seconds_sum 0.05\n";
constexpr const char* kStageAfter =
    "softmax_batch_wait_duration_seconds_bucket{le=\"0.001\"} "
    "110\nsoftmax_batch_wait_duration_seconds_bucket{le=\"0.0025\"} 200\n"
    "softmax_batch_wait_duration_seconds_bucket{le=\"+Inf\"} 200\nsoftmax_batch_wait_duration_seconds_sum 0.25\n";

TEST(ServerDelta, StagesHaveMeanAndInterpolatedQuantiles) {
  const json stage = Delta(kStageBefore, kStageAfter)["stages"]["batch"];
  EXPECT_EQ(stage["count"], 100);
  EXPECT_NEAR(stage["mean_us"].get<double>(), 2000, 1e-6);
  EXPECT_NEAR(stage["p50_us"].get<double>(), 1000 + 1500 * 40 / 90.0, 1e-6);
  EXPECT_NEAR(stage["p99_us"].get<double>(), 1000 + 1500 * 89 / 90.0, 1e-6);
  ASSERT_EQ(stage["buckets"].size(), 2u) << "the empty last bucket is left out";
  EXPECT_EQ(stage["buckets"][1]["n"], 90);
  EXPECT_NEAR(stage["buckets"][1]["above"].get<double>(), 1000, 1e-6);
  const json idle = Delta(kStageAfter, kStageAfter)["stages"]["batch"];
  EXPECT_EQ(idle["count"], 0);
  EXPECT_TRUE(idle["mean_us"].is_null());
  EXPECT_TRUE(idle["p99_us"].is_null());
}

// Of 100 observations that took 1 us together none of the slowest half can have taken the 5 us that half of the first
// bucket is.
TEST(ServerDelta, AQuantileIsNoMoreThanTheMeanAllows) {
  const std::string before = "softmax_queue_duration_seconds_bucket{le=\"+Inf\"} 0\n";
  const std::string buckets =
      "softmax_queue_duration_seconds_bucket{le=\"1e-05\"} 100\nsoftmax_queue_duration_seconds_bucket{le=\"+Inf\"} "
      "100\n";
  const json told = Delta(before, buckets + "softmax_queue_duration_seconds_sum 1e-06\n")["stages"]["queue"];
  EXPECT_NEAR(told["p50_us"].get<double>(), 0.02, 1e-9);
  EXPECT_NEAR(told["p99_us"].get<double>(), 1.0, 1e-9);
  const json none = Delta(before, buckets + "softmax_queue_duration_seconds_sum 0\n")["stages"]["queue"];
  EXPECT_EQ(none["p99_us"], 0.0);
  const json untold = Delta(before, buckets)["stages"]["queue"];
  EXPECT_TRUE(untold["mean_us"].is_null());
  EXPECT_NEAR(untold["p50_us"].get<double>(), 5, 1e-9);
}

TEST(ServerDelta, SizesAreWholeNumbers) {
  const json sizes =
      Delta("softmax_requests_total 0\n",
            "softmax_batch_requests_bucket{le=\"1\"} 60\nsoftmax_batch_requests_bucket{le=\"2\"} 60\n"
            "softmax_batch_requests_bucket{le=\"4\"} 90\nsoftmax_batch_requests_bucket{le=\"+Inf\"} 100\n"
            "softmax_batch_requests_sum 250\n")["batches"]["requests"];
  EXPECT_EQ(sizes["mean"], 2.5);
  EXPECT_EQ(sizes["p50"], 1.0) << "not 0.83: a batch of less than one request is none";
  EXPECT_EQ(sizes["p99"], 4.0) << "beyond the last bound nothing is known but that bound";
  EXPECT_TRUE(sizes["buckets"].back()["le"].is_null());
  EXPECT_EQ(sizes["buckets"].size(), 4u) << "an empty bucket between others stays";
}

// (4, 8] holds 5, 6, 7 and 8, whose middle is 6.5; that of the interval is 6.
TEST(ServerDelta, QuantilesOfSizesAreWithinTheBucketsWholeNumbers) {
  const json sizes = Delta("softmax_requests_total 0\n",
                           "softmax_batch_requests_bucket{le=\"4\"} 0\nsoftmax_batch_requests_bucket{le=\"8\"} 100\n"
                           "softmax_batch_requests_bucket{le=\"+Inf\"} 100\n")["batches"]["requests"];
  EXPECT_EQ(sizes["p50"], 7.0);
  EXPECT_EQ(sizes["p99"], 8.0);
}

TEST(ServerDelta, AddsUpHistogramsOfSeveralMethods) {
  const auto text = [](int softmax, int stream, int info) {
    std::string out;
    for (const auto& [method, n] :
         {std::pair{"Softmax", softmax}, {"SoftmaxStream", stream}, {"GetServerInfo", info}}) {
      for (const char* le : {"0.001", "+Inf"}) {
        absl::StrAppend(&out, "softmax_request_duration_seconds_bucket{method=\"", method, "\",le=\"", le, "\"} ", n,
                        "\n");
      }
      absl::StrAppend(&out, "softmax_request_duration_seconds_sum{method=\"", method, "\"} ", n * 0.0005, "\n");
    }
    return out;
  };
  const json stage = Delta(text(10, 10, 10), text(20, 40, 500))["stages"]["request"];
  EXPECT_EQ(stage["count"], 40) << "GetServerInfo is no load";
  EXPECT_NEAR(stage["mean_us"].get<double>(), 500, 1e-6);
}

TEST(ServerDelta, ARestartIsToldAndCountedFromZero) {
  const json fell = Delta("softmax_rows_total 500\nsoftmax_batches_total{reason=\"idle\"} 5\n",
                          "softmax_rows_total 30\nsoftmax_batches_total{reason=\"idle\"} 6\n");
  EXPECT_EQ(fell["rows"], 30);
  EXPECT_EQ(fell["closing"]["idle"], 6) << "all counters began again, those too that are higher already";
  ASSERT_EQ(fell["warnings"].size(), 1u);
  EXPECT_THAT(fell["warnings"][0].get<std::string>(), HasSubstr("restart"));

  const json later = Delta("process_start_time_seconds 1000\nsoftmax_rows_total 500\n",
                           "process_start_time_seconds 1500\nsoftmax_rows_total 600\n");
  EXPECT_EQ(later["rows"], 600) << "a later start, though no counter fell";
  EXPECT_EQ(later["warnings"].size(), 1u);
}

TEST(ServerDelta, HostileNumbersAndLabelsDoNoHarm) {
  const char* hostile =
      "softmax_rows_total NaN\nsoftmax_input_bytes_total 1e300\nsoftmax_output_bytes_total +Inf\n"
      "softmax_batches_total{reason=\"\xff\xfe\"} 1e308\nsoftmax_batches_total{reason=\"idle\"} -7\n"
      "softmax_batch_rows_bucket{le=\"NaN\"} 3\nsoftmax_batch_rows_bucket{le=\"-1\"} 3\n"
      "softmax_batch_rows_bucket{le=\"4\"} 9\nsoftmax_batch_rows_bucket{le=\"8\"} 2\nsoftmax_batch_rows_bucket 5\n"
      "softmax_gpu_power NaN\nprocess_cpu_seconds_total 1e308\nprocess_resident_memory_bytes -Inf\n";
  const json delta = Delta("a 1\n", hostile);
  EXPECT_NO_THROW(delta.dump());
  EXPECT_EQ(delta["rows"], 0);
  EXPECT_LE(delta["input_bytes"].get<double>(), 9e15);
  EXPECT_EQ(delta["batches"]["rows"]["count"], 9) << "a cumulative count that falls adds nothing";
  EXPECT_TRUE(delta["resident_bytes"].is_null());
  EXPECT_TRUE(delta["gpu"].empty());
}

TEST(ServerDelta, ASumBeyondAnyIntegerIsTheLargest) {
  std::string text;
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&text, "softmax_requests_total{code=\"", i, "\"} 1e300\n");
  EXPECT_EQ(Delta("a 1\n", text)["requests"], 9'000'000'000'000'000);
}

TEST(ServerDelta, GpuMetricsAndStatesArePassedOn) {
  const json delta =
      Delta("softmax_gpu_busy_seconds_total{device=\"0\"} 1\nsoftmax_gpu_memory_bytes{device=\"0\"} 5\n",
            "softmax_gpu_busy_seconds_total{device=\"0\"} 2.5\nsoftmax_gpu_memory_bytes{device=\"0\"} 7\n"
            "softmax_unsafe_testing 1\nsoftmax_degraded 1\n"
            "softmax_build_info{version=\"0.1.0\",commit=\"abc\",backend=\"cuda\"} 1\n");
  EXPECT_EQ(delta["gpu"], (json{{"softmax_gpu_busy_seconds_total{device=\"0\"}", 1.5},
                                {"softmax_gpu_memory_bytes{device=\"0\"}", 7.0}}));
  EXPECT_EQ(delta["backend"], "cuda");
  EXPECT_EQ(delta["warnings"].size(), 2u);
}

MetricsSnapshot At(std::string address, std::string_view text) {
  MetricsSnapshot snapshot = Snapshot(text, 100);
  snapshot.address = std::move(address);
  return snapshot;
}

TEST(ServersTogether, CountsAddUpAndOneThatBeganAnewLeavesTheOthersAlone) {
  const std::string buckets = "softmax_queue_duration_seconds_bucket{le=\"0.1\"} ";
  const auto before =
      Together({At("a:1", "process_start_time_seconds 10\nsoftmax_rows_total 500\n" + buckets +
                              "7\n"
                              "softmax_build_info{backend=\"cpu\",version=\"1\"} 1\n"),
                At("b:1", "process_start_time_seconds 10\nsoftmax_rows_total 1000\n" + buckets + "1\n")});
  const auto after = Together({At("a:1", "process_start_time_seconds 90\nsoftmax_rows_total 30\n" + buckets +
                                             "5\n"
                                             "process_resident_memory_bytes 4\n"
                                             "softmax_build_info{backend=\"cpu\",version=\"1\"} 1\n"),
                               At("b:1", "process_start_time_seconds 10\nsoftmax_rows_total 1200\n" + buckets +
                                             "3\n"
                                             "process_resident_memory_bytes 6\n"
                                             "softmax_build_info{backend=\"cuda\",version=\"1\"} 1\n")});
  const json delta = ServerDelta(before, after);
  EXPECT_EQ(delta["address"], "a:1, b:1");
  EXPECT_EQ(delta["rows"], 30 + 200);
  EXPECT_EQ(delta["stages"]["queue"]["count"], 5 + 2);
  EXPECT_EQ(delta["resident_bytes"], 10);
  EXPECT_EQ(delta["version"], "1");
  EXPECT_EQ(delta["backend"], "cpu, cuda");
  ASSERT_EQ(delta["warnings"].size(), 1u);
  EXPECT_THAT(delta["warnings"][0].get<std::string>(), HasSubstr("a:1's counters began again"));
}

}  // namespace
}  // namespace softmax::client
