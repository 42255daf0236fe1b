#include "server/metrics/families.h"

#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace softmax::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr double kNanosecondsPerSecond = 1e9;

constexpr std::array<const char*, kCodes> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
constexpr std::array<const char*, kCloseReasons> kCloseNames = {"idle", "drained", "full", "delay", "large"};
constexpr std::array<const char*, kRefuseReasons> kRefuseNames = {
    "queue_full", "no_memory", "draining", "invalid", "deadline", "unauthorized", "connection_bytes"};

// Of each Counter. Without a help: a further one of the family before it.
struct CounterSeries {
  const char *name, *help, *label = nullptr, *value = nullptr;
};
constexpr CounterSeries kCounterSeries[] = {
    {"softmax_input_bytes_total", "Bytes of tensors read by batches that ran."},
    {"softmax_output_bytes_total", "Bytes of tensors written by batches that ran."},
    {"softmax_answer_saved_bytes_total", "Bytes by which summaries were smaller than the tensors that they stood for."},
    {"softmax_host_copied_bytes_total",
     "Payload bytes copied by the host's CPU: in is at most 1 x the input, out is only small answers and those of slow "
     "readers.",
     "direction", "in"},
    {"softmax_host_copied_bytes_total", nullptr, "direction", "out"},
};
static_assert(std::size(kCounterSeries) == kCounters);

MetricFamily* AddFamily(const char* name, const char* help, MetricType type, Families* out) {
  return &out->emplace_back(MetricFamily{name, help, type, {}});
}

void AddCounter(double value, Labels labels, MetricFamily* family) {
  ClientMetric& metric = family->metric.emplace_back();
  metric.label = std::move(labels);
  metric.counter.value = value;
}

void AddGauge(double value, Labels labels, MetricFamily* family) {
  ClientMetric& metric = family->metric.emplace_back();
  metric.label = std::move(labels);
  metric.gauge.value = value;
}

// `per_unit` is how many of a thread's counts make one of the published unit. Division by a whole
// number keeps bounds short: 25000 ns come out as 2.5e-05.
template <std::size_t N>
void AddHistogram(const HistogramTotals<N>& totals, const BucketBounds<N>& bounds, double per_unit, Labels labels,
                  MetricFamily* family) {
  ClientMetric& metric = family->metric.emplace_back();
  metric.label = std::move(labels);
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

template <std::size_t N>
void AddHistogramFamily(const char* name, const char* help, const HistogramTotals<N>& totals,
                        const BucketBounds<N>& bounds, double per_unit, Families* out) {
  AddHistogram(totals, bounds, per_unit, {}, AddFamily(name, help, MetricType::Histogram, out));
}

void AddSourceFamily(const char* name, const char* help, const std::function<double()>& source, Families* out) {
  if (source) AddGauge(source(), {}, AddFamily(name, help, MetricType::Gauge, out));
}

void AddOptional(const char* name, const char* help, MetricType type, const std::optional<double>& value,
                 Families* out) {
  if (!value) return;
  MetricFamily* family = AddFamily(name, help, type, out);
  type == MetricType::Counter ? AddCounter(*value, {}, family) : AddGauge(*value, {}, family);
}

}  // namespace

void AddRequestFamilies(const CounterTotals& totals, Families* out) {
  MetricFamily* requests =
      AddFamily("softmax_requests_total", "Requests answered, by method, protocol and gRPC status code.",
                MetricType::Counter, out);
  for (std::size_t method = 0; method < kMethods; ++method) {
    for (std::size_t code = 0; code < kCodes; ++code) {
      // OK is there from the start, so that a rate over a young server is 0 and not missing.
      if (const auto count = totals.requests[method][code]; count > 0 || code == 0) {
        AddCounter(static_cast<double>(count),
                   {{"method", NameOf(static_cast<Method>(method))},
                    {"protocol", ProtocolOf(static_cast<Method>(method))},
                    {"code", kCodeNames[code]}},
                   requests);
      }
    }
  }
  MetricFamily* seconds =
      AddFamily("softmax_request_duration_seconds",
                "Seconds from a request's last byte to its answer handed to the transport, by method.",
                MetricType::Histogram, out);
  for (std::size_t method = 0; method < kMethods; ++method) {
    AddHistogram(
        totals.request_time[method], kTimeBounds, kNanosecondsPerSecond,
        {{"method", NameOf(static_cast<Method>(method))}, {"protocol", ProtocolOf(static_cast<Method>(method))}},
        seconds);
  }
  AddHistogramFamily("softmax_queue_duration_seconds", "Seconds a request waited for memory before it was in a batch.",
                     totals.queue_time, kTimeBounds, kNanosecondsPerSecond, out);
  AddHistogramFamily("softmax_batch_wait_duration_seconds",
                     "Seconds a request spent in an open batch until that was launched.", totals.batch_wait,
                     kTimeBounds, kNanosecondsPerSecond, out);
  MetricFamily* rejected = AddFamily("softmax_requests_rejected_total", "Requests refused before they ran, by reason.",
                                     MetricType::Counter, out);
  for (std::size_t i = 0; i < kRefuseReasons; ++i) {
    AddCounter(static_cast<double>(totals.rejected[i]), {{"reason", kRefuseNames[i]}}, rejected);
  }
}

void AddBatchFamilies(const CounterTotals& totals, Families* out) {
  AddHistogramFamily("softmax_execution_duration_seconds", "Seconds from a batch's launch to its completion seen.",
                     totals.execution, kTimeBounds, kNanosecondsPerSecond, out);
  AddHistogramFamily("softmax_batch_rows", "Rows in a batch.", totals.batch_rows, kRowBounds, 1, out);
  AddHistogramFamily("softmax_batch_requests", "Requests in a batch.", totals.batch_requests, kRequestBounds, 1, out);
  AddHistogramFamily("softmax_batch_bytes", "Bytes of a batch's tensors, in and out together.", totals.batch_bytes,
                     kByteBounds, 1, out);
  MetricFamily* batches =
      AddFamily("softmax_batches_total", "Batches run, by why they were closed.", MetricType::Counter, out);
  for (std::size_t i = 0; i < kCloseReasons; ++i) {
    AddCounter(static_cast<double>(totals.batches[i]), {{"reason", kCloseNames[i]}}, batches);
  }
  AddCounter(static_cast<double>(totals.batch_rows.sum), {},
             AddFamily("softmax_rows_total", "Rows run.", MetricType::Counter, out));
  MetricFamily* answers = AddFamily("softmax_answers_total",
                                    "Requests run, by what they asked for; one that asks for several counts for each.",
                                    MetricType::Counter, out);
  constexpr const char* kKindNames[kAnswerKinds] = {"tensor", "top_k", "indices", "log_sum_exp", "entropy"};
  for (std::size_t i = 0; i < kAnswerKinds; ++i) {
    AddCounter(static_cast<double>(totals.answers[i]), {{"kind", kKindNames[i]}}, answers);
  }
  for (std::size_t i = 0; i < kCounters; ++i) {
    const auto& [name, help, label, value] = kCounterSeries[i];
    if (help != nullptr) AddFamily(name, help, MetricType::Counter, out);
    AddCounter(static_cast<double>(totals.counters[i]), label == nullptr ? Labels{} : Labels{{label, value}},
               &out->back());
  }
}

namespace {

void AddDeviceFamilies(const GaugeSources& sources, Families* out) {
  if (!sources.devices) return;
  const std::vector<DeviceGauges> devices = sources.devices();
  MetricFamily* serving = AddFamily("softmax_device_serving",
                                    "1 when the device runs batches; 0 when it was lost, or is being tested because "
                                    "another one was.",
                                    MetricType::Gauge, out);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    AddGauge(devices[i].serving ? 1 : 0, {{"device", std::to_string(i)}, {"name", devices[i].name}}, serving);
  }
  if (devices.size() < 2) return;  // nobody chooses, so nobody counts
  MetricFamily* bytes = AddFamily("softmax_device_in_flight_bytes",
                                  "Bytes of batches launched on the device and not finished, by which new batches "
                                  "choose theirs.",
                                  MetricType::Gauge, out);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    AddGauge(devices[i].bytes_in_flight, {{"device", std::to_string(i)}}, bytes);
  }
}

void AddReceiveBlocks(const GaugeSources& sources, Families* out) {
  if (!sources.receive_blocks_total) return;
  MetricFamily* family = AddFamily("softmax_receive_blocks",
                                   "Blocks of the memory that messages arrive in and a GPU reads (64 KiB each): all "
                                   "there are, and those in use.",
                                   MetricType::Gauge, out);
  AddGauge(sources.receive_blocks_total(), {{"state", "total"}}, family);
  AddGauge(sources.receive_blocks_used(), {{"state", "used"}}, family);
}

void AddRegionFamilies(const GaugeSources& sources, Families* out) {
  if (!sources.regions) return;
  const std::vector<RegionGauges> regions = sources.regions();
  MetricFamily* count = AddFamily("softmax_regions", "Regions that are given out, by memory: host, or the device.",
                                  MetricType::Gauge, out);
  for (const RegionGauges& of : regions) AddGauge(of.regions, {{"memory", of.memory}}, count);
  MetricFamily* bytes = AddFamily("softmax_region_bytes", "Bytes of these regions.", MetricType::Gauge, out);
  for (const RegionGauges& of : regions) AddGauge(of.bytes, {{"memory", of.memory}}, bytes);
  AddSourceFamily("softmax_region_connections", "Open connections to the socket of regions.",
                  sources.region_connections, out);
  MetricFamily* refused =
      AddFamily("softmax_regions_refused_total", "What clients of the socket of regions were refused, by reason.",
                MetricType::Counter, out);
  for (const auto& [reason, refusals] : sources.regions_refused()) AddCounter(refusals, {{"reason", reason}}, refused);
}

void AddTraceFamilies(const GaugeSources& sources, Families* out) {
  if (!sources.traced_requests) return;
  MetricFamily* requests =
      AddFamily("softmax_traced_requests_total",
                "Requests that were to be sent to --trace-endpoint, by what became of them.", MetricType::Counter, out);
  for (const auto& [outcome, count] : sources.traced_requests()) AddCounter(count, {{"outcome", outcome}}, requests);
  AddCounter(sources.rejected_spans(), {},
             AddFamily("softmax_trace_spans_rejected_total", "Spans that the endpoint says it has not kept.",
                       MetricType::Counter, out));
}

}  // namespace

void AddThreadFamilies(const GaugeSources& sources, const CounterTotals& totals, Families* out) {
  AddHistogramFamily("softmax_queue_thread_lag_seconds",
                     "Seconds a queue thread came late to a wake-up, asked ten times a second.", totals.lag,
                     kTimeBounds, kNanosecondsPerSecond, out);
  if (!sources.queue_threads_busy) return;
  MetricFamily* busy = AddFamily("softmax_queue_thread_busy_seconds_total",
                                 "CPU time of each queue thread, in seconds; a thread that polls a GPU counts as busy.",
                                 MetricType::Counter, out);
  const std::vector<double> seconds = sources.queue_threads_busy();
  for (std::size_t i = 0; i < seconds.size(); ++i) AddCounter(seconds[i], {{"thread", std::to_string(i)}}, busy);
}

void AddGaugeFamilies(const GaugeSources& sources, const CounterTotals& totals, Families* out) {
  const std::uint64_t arrived = totals.arrived > totals.finished ? totals.arrived : totals.finished;
  const auto counted = static_cast<double>(arrived - totals.finished);
  AddGauge(sources.requests_in_flight ? sources.requests_in_flight() : counted, {},
           AddFamily("softmax_requests_in_flight", "Requests received and not yet answered.", MetricType::Gauge, out));
  AddSourceFamily("softmax_requests_queued", "Requests waiting for memory.", sources.requests_queued, out);
  AddSourceFamily("softmax_queued_bytes", "Bytes of requests waiting for memory.", sources.bytes_queued, out);
  AddSourceFamily("softmax_unread_bytes", "Bytes of answers outside the arena that clients have not read.",
                  sources.bytes_unread, out);
  const std::pair<const char*, const std::function<double()>*> slabs[] = {
      {"total", &sources.slabs_total},
      {"used", &sources.slabs_used},
      {"held_by_answers", &sources.slabs_held_by_answers}};
  if (sources.slabs_total) {
    MetricFamily* family =
        AddFamily("softmax_slabs",
                  "Slabs of the arena: all there are, those in use, and of these the ones that wait for a "
                  "client to read its answer. (The states are not disjoint: do not sum them.)",
                  MetricType::Gauge, out);
    for (const auto& [state, source] : slabs) {
      if (*source) {
        AddGauge((*source)(), {{"state", state}}, family);
      }
    }
  }
  AddReceiveBlocks(sources, out);
  AddSourceFamily("softmax_connections", "Open client connections.", sources.connections, out);
  if (sources.connections_ended) {
    MetricFamily* ended = AddFamily("softmax_connections_ended_total",
                                    "Connections ended for what their clients sent: more calls, frames, headers or "
                                    "messages than any use needs. To make room while --max-connections were open: "
                                    "silent ones, those in a handshake, unused and idle ones. And newcomers that had "
                                    "no place.",
                                    MetricType::Counter, out);
    for (const auto& [reason, count] : sources.connections_ended()) AddCounter(count, {{"reason", reason}}, ended);
  }
  AddSourceFamily("softmax_unsafe_testing", "1 when started with --unsafe-testing: answers may be wrong on purpose.",
                  sources.unsafe_testing, out);
  AddSourceFamily("softmax_degraded", "1 when a device was lost and the others serve on.", sources.degraded, out);
  AddDeviceFamilies(sources, out);
  AddRegionFamilies(sources, out);
  AddTraceFamilies(sources, out);
  AddSourceFamily("softmax_ready", "1 when the server takes requests.", sources.ready, out);
}

void AddBuildFamilies(const Metrics::Options& options, Families* out) {
  AddGauge(1, {{"version", options.version}, {"commit", options.commit}, {"backend", options.backend}},
           AddFamily("softmax_build_info", "Always 1; the labels say what runs.", MetricType::Gauge, out));
  if (options.settings.empty()) return;
  MetricFamily* settings =
      AddFamily("softmax_setting", "Configured values, in bytes, seconds or counts as the name label says.",
                MetricType::Gauge, out);
  for (const auto& [name, value] : options.settings) AddGauge(value, {{"name", name}}, settings);
}

void AddProcessFamilies(const ProcessStats& stats, Families* out) {
  AddOptional("process_cpu_seconds_total", "User and system CPU time spent, in seconds.", MetricType::Counter,
              stats.cpu_seconds, out);
  AddOptional("process_resident_memory_bytes", "Resident memory, in bytes.", MetricType::Gauge, stats.resident_bytes,
              out);
  AddOptional("process_virtual_memory_bytes", "Virtual memory, in bytes.", MetricType::Gauge, stats.virtual_bytes, out);
  AddOptional("process_start_time_seconds", "Start of the process, in seconds since the epoch.", MetricType::Gauge,
              stats.start_time_seconds, out);
  AddOptional("process_open_fds", "Open file descriptors.", MetricType::Gauge, stats.open_fds, out);
  AddOptional("process_max_fds", "Limit of open file descriptors.", MetricType::Gauge, stats.max_fds, out);
  AddOptional("process_threads", "Threads of the process.", MetricType::Gauge, stats.threads, out);
}

}  // namespace softmax::server
