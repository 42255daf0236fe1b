#include "client/loadgen/scrape/server_metrics.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "client/loadgen/scrape/http_get.h"

namespace softmax::client {
namespace {

using nlohmann::json;

constexpr double kMicroseconds = 1e6;

json Number(std::optional<double> value) { return value && std::isfinite(*value) ? json(*value) : json(); }

// Sums of what an unknown server sent may be beyond any integer.
std::int64_t Whole(double value) { return std::llround(std::clamp(value, 0.0, 9e15)); }

json Count(std::optional<double> value) { return value ? json(Whole(*value)) : json(); }

json Counts(const std::map<std::string, double>& sums) {
  json counts = json::object();
  for (const auto& [name, sum] : sums) counts[name] = Whole(sum);
  return counts;
}

json Buckets(const WindowHistogram& histogram, double scale) {
  json buckets = json::array();
  for (const WindowHistogram::Bucket& bucket : histogram.buckets) {
    buckets.push_back({{"above", bucket.above * scale},
                       {"le", Number(bucket.le * scale)},  // null: without end
                       {"n", Whole(bucket.n)}});
  }
  return buckets;
}

json Stage(const WindowHistogram& seconds) {
  const auto in_us = [](std::optional<double> value) { return value ? Number(*value * kMicroseconds) : json(); };
  return {{"count", Whole(seconds.count)},
          {"mean_us", in_us(seconds.Mean())},
          {"p50_us", in_us(seconds.Quantile(0.50, false))},
          {"p99_us", in_us(seconds.Quantile(0.99, false))},
          {"buckets", Buckets(seconds, kMicroseconds)}};
}

json Sizes(const WindowHistogram& sizes) {
  return {{"count", Whole(sizes.count)},
          {"mean", Number(sizes.Mean())},
          {"p50", Number(sizes.Quantile(0.50, true))},
          {"p99", Number(sizes.Quantile(0.99, true))},
          {"buckets", Buckets(sizes, 1)}};
}

// GetServerInfo and the calls without tensors are asked by clients on their own account and are no load.
bool IsLoad(const MetricSample& sample) {
  return sample.Label("method") != "GetServerInfo" && sample.Label("method") != "Control";
}

json Gpu(const MetricsWindow& window, const MetricsSnapshot& after) {
  json gpu = json::object();
  for (const MetricSample& sample : after.samples) {
    const bool named = sample.name.find("gpu") != std::string::npos || sample.name.find("cuda") != std::string::npos;
    if (!named || sample.name.ends_with("_bucket") || !std::isfinite(sample.value)) continue;
    std::string name = sample.name;
    for (const auto& [label, value] : sample.labels) {
      absl::StrAppend(&name, &label == &sample.labels.front().first ? "{" : ", ", label, "=\"", value, "\"");
    }
    if (!sample.labels.empty()) name += "}";
    gpu[name] = sample.name.ends_with("_total") ? window.Growth(sample) : sample.value;
  }
  return gpu;
}

void AddBuild(const MetricsSnapshot& after, json* out) {
  for (const char* label : {"version", "commit", "backend"}) {
    std::set<std::string> values;
    for (const MetricSample& sample : after.samples) {
      if (sample.name == "softmax_build_info") values.emplace(sample.Label(label));
    }
    (*out)[label] = absl::StrJoin(values, ", ");
  }
}

json Warnings(const MetricsWindow& window) {
  json warnings = json::array();
  for (const std::string& server : window.restarted()) {
    warnings.push_back(
        absl::StrCat(server.empty() ? "The server" : server,
                     "'s counters began again within the window (a restart?): its figures are only those since."));
  }
  if (window.Gauge("softmax_unsafe_testing").value_or(0) > 0) {
    warnings.push_back("The server runs with --unsafe-testing: its answers may be wrong on purpose.");
  }
  if (window.Gauge("softmax_degraded").value_or(0) > 0) {
    warnings.push_back("The server is degraded: it lost a device and serves on with the others.");
  }
  return warnings;
}

}  // namespace

absl::StatusOr<MetricsSnapshot> FetchMetrics(std::string_view address, std::chrono::milliseconds timeout) {
  const absl::StatusOr<HttpLocation> location = ParseHttpLocation(address, "/metrics");
  if (!location.ok()) return location.status();
  const absl::StatusOr<std::string> text = HttpGet(*location, {.timeout = timeout});
  if (!text.ok()) return text.status();
  MetricsSnapshot snapshot{std::string(address), std::chrono::steady_clock::now(), {}};
  absl::StatusOr<std::vector<MetricSample>> samples = ParseMetrics(*text);
  if (!samples.ok())
    return absl::Status(samples.status().code(), absl::StrCat(snapshot.address, ": ", samples.status().message()));
  const bool ours = std::any_of(samples->begin(), samples->end(),
                                [](const MetricSample& sample) { return sample.name == "softmax_requests_total"; });
  if (!ours) {
    return absl::FailedPreconditionError(absl::StrCat(
        snapshot.address, ": has no softmax_requests_total; is this the metrics address of a softmax-server?"));
  }
  snapshot.samples = *std::move(samples);
  return snapshot;
}

MetricsSnapshot Together(const std::vector<MetricsSnapshot>& snapshots) {
  if (snapshots.size() == 1) return snapshots.front();
  MetricsSnapshot all;
  for (const MetricsSnapshot& one : snapshots) {
    all.taken = std::max(all.taken, one.taken);
    absl::StrAppend(&all.address, all.address.empty() ? "" : ", ", one.address);
    for (MetricSample sample : one.samples) {
      sample.labels.emplace_back(kServerLabel, one.address);
      all.samples.push_back(std::move(sample));
    }
  }
  return all;
}

json ServerDelta(const MetricsSnapshot& before, const MetricsSnapshot& after) {
  const MetricsWindow window(before.samples, after.samples);
  const double seconds = std::chrono::duration<double>(after.taken - before.taken).count();
  const std::optional<double> cpu = window.Counter("process_cpu_seconds_total");
  const WindowHistogram rows = window.Histogram("softmax_batch_rows");
  const auto copied = [&](std::string_view direction) {
    return window.Counter("softmax_host_copied_bytes_total",
                          [&](const MetricSample& sample) { return sample.Label("direction") == direction; });
  };
  json server = {
      {"address", after.address},
      {"window_s", seconds},
      {"requests", Count(window.Counter("softmax_requests_total", IsLoad))},
      {"requests_by_code", Counts(window.CountersBy("softmax_requests_total", "code", IsLoad))},
      {"rejected", Counts(window.CountersBy("softmax_requests_rejected_total", "reason"))},
      {"stages",
       {{"request", Stage(window.Histogram("softmax_request_duration_seconds", IsLoad))},
        {"queue", Stage(window.Histogram("softmax_queue_duration_seconds"))},
        {"batch", Stage(window.Histogram("softmax_batch_wait_duration_seconds"))},
        {"execution", Stage(window.Histogram("softmax_execution_duration_seconds"))}}},
      {"batches",
       {{"count", Whole(rows.count)},
        {"rows", Sizes(rows)},
        {"requests", Sizes(window.Histogram("softmax_batch_requests"))},
        {"bytes", Sizes(window.Histogram("softmax_batch_bytes"))}}},
      {"closing", Counts(window.CountersBy("softmax_batches_total", "reason"))},
      {"rows", Count(window.Counter("softmax_rows_total"))},
      {"input_bytes", Count(window.Counter("softmax_input_bytes_total"))},
      {"output_bytes", Count(window.Counter("softmax_output_bytes_total"))},
      {"copied_in_bytes", Count(copied("in"))},
      {"copied_out_bytes", Count(copied("out"))},
      {"cpu_cores", cpu && seconds > 0 ? Number(*cpu / seconds) : json()},
      {"resident_bytes", Number(window.Gauge("process_resident_memory_bytes"))},
      {"gpu", Gpu(window, after)},
      {"warnings", Warnings(window)},
  };
  AddBuild(after, &server);
  // A server may send labels that are not UTF-8, and to write those out would throw in the caller's hands.
  return json::parse(server.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string ServerDeltaText(const MetricsSnapshot& before, const MetricsSnapshot& after) {
  return ServerDelta(before, after).dump();
}

}  // namespace softmax::client
