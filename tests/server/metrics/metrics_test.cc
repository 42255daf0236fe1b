#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace softmax::server {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<Metrics> MakeMetrics() {
  Metrics::Options options;
  options.version = "1.2.3";
  options.commit = "abcdef";
  options.backend = "cpu";
  options.settings = {{"max_batch_bytes", 1048576}, {"drain_timeout_seconds", 30}};
  return Metrics::Create(std::move(options));
}

// The value of the sample with exactly this name and labels; -1 when there is none.
double ValueOf(const std::string& text, const std::string& sample) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(sample + " ")) {
      return std::stod(line.substr(sample.size() + 1));
    }
  }
  return -1;
}

RequestSample Sample(Method method, int code, microseconds total) {
  RequestSample sample;
  sample.method = method;
  sample.code = code;
  sample.total = total;
  sample.queue = microseconds(5);
  sample.batch = microseconds(20);
  sample.ran = code == 0;
  return sample;
}

TEST(Metrics, PublishesEventsUnderTheirNames) {
  const auto metrics = MakeMetrics();
  Recorder* recorder = metrics->AddRecorder();
  recorder->RequestFinished(Sample(Method::kSoftmax, 0, microseconds(30)));
  recorder->RequestFinished(Sample(Method::kSoftmaxStream, 3, milliseconds(2)));
  recorder->RequestRefused(RefuseReason::kDraining);
  recorder->Add(Counter::kCopiedIn, 640);
  recorder->Add(Counter::kCopiedOut, 64);
  BatchSample batch;
  batch.requests = 2;
  batch.rows = 7;
  batch.input_bytes = 640;
  batch.output_bytes = 1280;
  batch.reason = CloseReason::kDrained;
  batch.execution = milliseconds(250);
  recorder->BatchFinished(batch);

  const std::string text = metrics->Render();
  const std::pair<const char*, double> expected[] = {
      {R"(softmax_requests_total{method="Softmax",protocol="native",code="OK"})", 1},
      {R"(softmax_requests_total{method="SoftmaxStream",protocol="native",code="INVALID_ARGUMENT"})", 1},
      {R"(softmax_requests_total{method="GetServerInfo",protocol="native",code="OK"})", 0},
      {R"(softmax_request_duration_seconds_bucket{method="Softmax",protocol="native",le="2.5e-05"})", 0},
      {R"(softmax_request_duration_seconds_bucket{method="Softmax",protocol="native",le="5e-05"})", 1},
      {R"(softmax_request_duration_seconds_sum{method="SoftmaxStream",protocol="native"})", 0.002},
      {R"(softmax_queue_duration_seconds_count)", 1},
      {R"(softmax_batch_wait_duration_seconds_bucket{le="1e-05"})", 0},
      {R"(softmax_batch_wait_duration_seconds_bucket{le="2.5e-05"})", 1},
      {R"(softmax_execution_duration_seconds_bucket{le="0.1"})", 0},
      {R"(softmax_execution_duration_seconds_bucket{le="0.25"})", 1},
      {R"(softmax_execution_duration_seconds_bucket{le="+Inf"})", 1},
      {R"(softmax_batch_rows_sum)", 7},
      {R"(softmax_batch_requests_bucket{le="2"})", 1},
      {R"(softmax_batch_bytes_bucket{le="1024"})", 0},
      {R"(softmax_batch_bytes_bucket{le="4096"})", 1},
      {R"(softmax_batches_total{reason="drained"})", 1},
      {R"(softmax_batches_total{reason="idle"})", 0},
      {R"(softmax_requests_rejected_total{reason="draining"})", 1},
      {R"(softmax_rows_total)", 7},
      {R"(softmax_input_bytes_total)", 640},
      {R"(softmax_output_bytes_total)", 1280},
      {R"(softmax_host_copied_bytes_total{direction="in"})", 640},
      {R"(softmax_host_copied_bytes_total{direction="out"})", 64},
      {R"(softmax_build_info{version="1.2.3",commit="abcdef",backend="cpu"})", 1},
      {R"(softmax_setting{name="max_batch_bytes"})", 1048576},
  };
  for (const auto& [sample, value] : expected) {
    EXPECT_DOUBLE_EQ(ValueOf(text, sample), value) << sample;
  }
  for (const char* name : {"cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes", "start_time_seconds",
                           "open_fds", "max_fds", "threads"}) {
    EXPECT_GE(ValueOf(text, std::string("process_") + name), 0) << name;
  }
  std::istringstream lines(text);
  std::size_t methods = 0;
  for (std::string line; std::getline(lines, line);) {
    methods += line.starts_with("softmax_request_duration_seconds_count{") ? 1 : 0;
  }
  EXPECT_EQ(methods, kMethods);
}

TEST(Metrics, ReadsGaugesAtScrapeTimeAndNotAfterTheyAreCleared) {
  const auto metrics = MakeMetrics();
  std::atomic<int> reads{0};
  metrics->SetGauges({{"softmax_requests_queued", "Some.",
                       [&]() -> Readings {
                         return {{{}, static_cast<double>(++reads)}};
                       }},
                      {"softmax_slabs", "Some.",
                       []() -> Readings {
                         return {{{{"state", "total"}}, 10}, {{{"state", "used"}}, 4}};
                       }},
                      {"softmax_ended_total", "A counter, by its name.",
                       []() -> Readings {
                         return {{{}, 3}};
                       }},
                      {"softmax_nothing", "Left out.", []() -> Readings { return {}; }}});
  std::string text = metrics->Render();
  EXPECT_EQ(ValueOf(text, "softmax_requests_queued"), 1);
  EXPECT_EQ(ValueOf(text, R"(softmax_slabs{state="total"})"), 10);
  EXPECT_EQ(ValueOf(text, R"(softmax_slabs{state="used"})"), 4);
  EXPECT_EQ(ValueOf(text, "softmax_ended_total"), 3);
  EXPECT_THAT(text, HasSubstr("# TYPE softmax_slabs gauge\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE softmax_ended_total counter\n"));
  EXPECT_THAT(text, Not(HasSubstr("softmax_nothing")));
  metrics->ClearGauges();
  text = metrics->Render();
  EXPECT_EQ(reads, 1);
  EXPECT_THAT(text, Not(HasSubstr("softmax_requests_queued")));
}

TEST(Metrics, TellsHowLateQueueThreadsAre) {
  const auto metrics = MakeMetrics();
  Recorder* const first = metrics->AddRecorder();
  Recorder* const second = metrics->AddRecorder();
  first->CameLate(microseconds(40));
  second->CameLate(milliseconds(600));
  second->CameLate(Nanoseconds(-5));  // two cores' clocks
  const std::string text = metrics->Render();
  EXPECT_EQ(ValueOf(text, R"(softmax_queue_thread_lag_seconds_bucket{le="5e-05"})"), 2);
  EXPECT_EQ(ValueOf(text, R"(softmax_queue_thread_lag_seconds_bucket{le="0.5"})"), 2);
  EXPECT_EQ(ValueOf(text, R"(softmax_queue_thread_lag_seconds_bucket{le="1"})"), 3);
}

TEST(Metrics, ClearGaugesWaitsForTheScrapeThatReadsThem) {
  const auto metrics = MakeMetrics();
  std::atomic<bool> entered{false}, leave{false}, left{false}, cleared{false};
  metrics->SetGauges({{"softmax_ready", "Slowly.", [&]() -> Readings {
                         entered = true;
                         entered.notify_all();
                         leave.wait(false);
                         left = true;
                         return {{{}, 1}};
                       }}});
  std::thread scrape([&] { metrics->Render(); });
  entered.wait(false);
  bool left_before_cleared = false;
  std::thread clear([&] {
    metrics->ClearGauges();
    left_before_cleared = left;
    cleared = true;
  });
  EXPECT_FALSE(cleared);
  leave = true;
  leave.notify_all();
  scrape.join();
  clear.join();
  EXPECT_TRUE(left_before_cleared);
}

// Every bucket line of a histogram must be at least the one before, and +Inf must equal the count,
// in every scrape.
void ExpectConsistentHistogram(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  double last = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + "_bucket{")) {
      const double value = std::stod(line.substr(line.find('}') + 1));
      ASSERT_GE(value, last) << line;
      last = value;
    }
  }
  ASSERT_EQ(last, ValueOf(text, name + "_count"));
}

TEST(Metrics, AddUpOverThreadsWhileBeingScraped) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 400'000;
  const auto metrics = MakeMetrics();
  std::atomic<int> running{kThreads};
  std::vector<std::thread> writers;
  for (int i = 0; i < kThreads; ++i) {
    writers.emplace_back([&] {
      Recorder* recorder = metrics->AddRecorder();
      for (int round = 0; round < kRounds; ++round) {
        recorder->RequestFinished(Sample(Method::kSoftmax, round % 2, microseconds(round)));
      }
      --running;
    });
  }
  int scrapes = 0;
  double last = 0;
  while (running > 0) {
    const std::string text = metrics->Render();
    ExpectConsistentHistogram(text, "softmax_queue_duration_seconds");
    const double ok = ValueOf(text, R"(softmax_requests_total{method="Softmax",protocol="native",code="OK"})");
    EXPECT_GE(ok, last);
    last = ok;
    ++scrapes;
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  EXPECT_GE(scrapes, 1);
  const std::string text = metrics->Render();
  const double half = kThreads * kRounds / 2;
  EXPECT_EQ(ValueOf(text, R"(softmax_requests_total{method="Softmax",protocol="native",code="OK"})"), half);
  EXPECT_EQ(ValueOf(text, R"(softmax_requests_total{method="Softmax",protocol="native",code="CANCELLED"})"), half);
  EXPECT_EQ(ValueOf(text, R"(softmax_request_duration_seconds_count{method="Softmax",protocol="native"})"), 2 * half);
  EXPECT_EQ(ValueOf(text, "softmax_queue_duration_seconds_count"), half);
}

}  // namespace
}  // namespace softmax::server
