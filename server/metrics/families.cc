#include "server/metrics/families.h"

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace softmax::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr double kNanosecondsPerSecond = 1e9;

constexpr std::array<const char*, kCodes> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
constexpr std::array<const char*, kCloseReasons> kCloseNames = {"idle", "drained", "full", "delay", "large"};
constexpr std::array<const char*, kRefuseReasons> kRefuseNames = {
    "queue_full", "no_memory", "draining", "invalid", "deadline", "unauthorized", "connection_bytes"};

constexpr std::array<const char*, kAnswerKinds> kAnswerNames = {"tensor", "top_k", "indices", "log_sum_exp", "entropy"};

void AddLabels(const Reading& reading, ClientMetric* metric) {
  for (const auto& [name, value] : reading.labels) metric->label.push_back({name, value});
}

// `per_unit` is how many of a thread's counts make one of the published unit. Division by a whole
// number keeps bounds short: 25000 ns come out as 2.5e-05.
template <std::size_t N>
void AddHistogram(const HistogramTotals<N>& totals, const BucketBounds<N>& bounds, double per_unit,
                  const Reading& labels, MetricFamily* family) {
  ClientMetric& metric = family->metric.emplace_back();
  AddLabels(labels, &metric);
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i <= N; ++i) {
    cumulative += totals.counts[i];
    const double bound =
        i == N ? std::numeric_limits<double>::infinity() : static_cast<double>(bounds.upper[i]) / per_unit;
    metric.histogram.bucket.push_back({cumulative, bound});
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = static_cast<double>(totals.sum) / per_unit;
}

MetricFamily* AddHistogramFamily(const char* name, const char* help, Families* out) {
  return &out->emplace_back(MetricFamily{name, help, MetricType::Histogram, {}});
}

// Of nanoseconds, published as seconds.
void AddTimes(const char* name, const char* help, const HistogramTotals<kTimeBounds.size()>& totals, Families* out) {
  AddHistogram(totals, kTimeBounds, kNanosecondsPerSecond, {}, AddHistogramFamily(name, help, out));
}

template <std::size_t N>
void AddSizes(const char* name, const char* help, const HistogramTotals<N>& totals, const BucketBounds<N>& bounds,
              Families* out) {
  AddHistogram(totals, bounds, 1, {}, AddHistogramFamily(name, help, out));
}

Reading OfMethod(std::size_t method) {
  return {{{"method", NameOf(static_cast<Method>(method))}, {"protocol", ProtocolOf(static_cast<Method>(method))}}};
}

// What is counted by reason, kind and the like.
template <std::size_t N>
Readings By(const char* label, const std::array<const char*, N>& names, const std::array<std::uint64_t, N>& counts) {
  Readings readings;
  for (std::size_t i = 0; i < N; ++i) readings.push_back({{{label, names[i]}}, static_cast<double>(counts[i])});
  return readings;
}

}  // namespace

void AddFamily(const char* name, const char* help, const Readings& readings, Families* out) {
  if (readings.empty()) return;
  const bool counts = std::string_view(name).ends_with("_total");
  MetricFamily& family =
      out->emplace_back(MetricFamily{name, help, counts ? MetricType::Counter : MetricType::Gauge, {}});
  for (const Reading& reading : readings) {
    ClientMetric& metric = family.metric.emplace_back();
    AddLabels(reading, &metric);
    (counts ? metric.counter.value : metric.gauge.value) = reading.value;
  }
}

void AddRequestFamilies(const CounterTotals& totals, Families* out) {
  Readings requests;
  for (std::size_t method = 0; method < kMethods; ++method) {
    for (std::size_t code = 0; code < kCodes; ++code) {
      const std::uint64_t count = totals.requests[method][code];
      // OK is there from the start, so that a rate over a young server is 0 and not missing.
      if (count == 0 && code != 0) continue;
      Reading& reading = requests.emplace_back(OfMethod(method));
      reading.labels.emplace_back("code", kCodeNames[code]);
      reading.value = static_cast<double>(count);
    }
  }
  AddFamily("softmax_requests_total", "Requests answered, by method, protocol and gRPC status code.", requests, out);
  MetricFamily* const seconds =
      AddHistogramFamily("softmax_request_duration_seconds",
                         "Seconds from a request's last byte to its answer handed to the transport, by method.", out);
  for (std::size_t method = 0; method < kMethods; ++method) {
    AddHistogram(totals.request_time[method], kTimeBounds, kNanosecondsPerSecond, OfMethod(method), seconds);
  }
  AddTimes("softmax_queue_duration_seconds", "Seconds a request waited for memory before it was in a batch.",
           totals.queue_time, out);
  AddTimes("softmax_batch_wait_duration_seconds", "Seconds a request spent in an open batch until that was launched.",
           totals.batch_wait, out);
  AddFamily("softmax_requests_rejected_total", "Requests refused before they ran, by reason.",
            By("reason", kRefuseNames, totals.rejected), out);
  AddTimes("softmax_queue_thread_lag_seconds",
           "Seconds a queue thread came late to a wake-up, asked ten times a second.", totals.lag, out);
}

void AddBatchFamilies(const CounterTotals& totals, Families* out) {
  AddTimes("softmax_execution_duration_seconds", "Seconds from a batch's launch to its completion seen.",
           totals.execution, out);
  AddSizes("softmax_batch_rows", "Rows in a batch.", totals.batch_rows, kRowBounds, out);
  AddSizes("softmax_batch_requests", "Requests in a batch.", totals.batch_requests, kRequestBounds, out);
  AddSizes("softmax_batch_bytes", "Bytes of a batch's tensors, in and out together.", totals.batch_bytes, kByteBounds,
           out);
  AddFamily("softmax_batches_total", "Batches run, by why they were closed.", By("reason", kCloseNames, totals.batches),
            out);
  AddFamily("softmax_rows_total", "Rows run.", {{{}, static_cast<double>(totals.batch_rows.sum)}}, out);
  AddFamily("softmax_answers_total", "Requests run, by what they asked for; one that asks for several counts for each.",
            By("kind", kAnswerNames, totals.answers), out);
  const auto count = [&totals](Counter counter) {
    return static_cast<double>(totals.counters[static_cast<std::size_t>(counter)]);
  };
  AddFamily("softmax_input_bytes_total", "Bytes of tensors read by batches that ran.",
            {{{}, count(Counter::kInputBytes)}}, out);
  AddFamily("softmax_output_bytes_total", "Bytes of tensors written by batches that ran.",
            {{{}, count(Counter::kOutputBytes)}}, out);
  AddFamily("softmax_answer_saved_bytes_total",
            "Bytes by which summaries were smaller than the tensors that they stood for.",
            {{{}, count(Counter::kSavedBytes)}}, out);
  AddFamily(
      "softmax_host_copied_bytes_total",
      "Payload bytes copied by the host's CPU: in is at most 1 x the input, out is only small answers and those of "
      "slow readers.",
      {{{{"direction", "in"}}, count(Counter::kCopiedIn)}, {{{"direction", "out"}}, count(Counter::kCopiedOut)}}, out);
}

void AddBuildFamilies(const Metrics::Options& options, Families* out) {
  AddFamily("softmax_build_info", "Always 1; the labels say what runs.",
            {{{{"version", options.version}, {"commit", options.commit}, {"backend", options.backend}}, 1}}, out);
  Readings settings;
  for (const auto& [name, value] : options.settings) settings.push_back({{{"name", name}}, value});
  AddFamily("softmax_setting", "Configured values, in bytes, seconds or counts as the name label says.", settings, out);
}

void AddProcessFamilies(const ProcessStats& stats, Families* out) {
  const auto add = [out](const char* name, const char* help, const std::optional<double>& value) {
    if (value) AddFamily(name, help, {{{}, *value}}, out);
  };
  add("process_cpu_seconds_total", "User and system CPU time spent, in seconds.", stats.cpu_seconds);
  add("process_resident_memory_bytes", "Resident memory, in bytes.", stats.resident_bytes);
  add("process_virtual_memory_bytes", "Virtual memory, in bytes.", stats.virtual_bytes);
  add("process_start_time_seconds", "Start of the process, in seconds since the epoch.", stats.start_time_seconds);
  add("process_open_fds", "Open file descriptors.", stats.open_fds);
  add("process_max_fds", "Limit of open file descriptors.", stats.max_fds);
  add("process_threads", "Threads of the process.", stats.threads);
}

}  // namespace softmax::server
