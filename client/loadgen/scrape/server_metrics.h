#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/loadgen/scrape/metrics_window.h"

// What the server says of itself at /metrics, taken before and after a measured window.
namespace softmax::client {

struct MetricsSnapshot {
  std::string address;                          // as asked for
  std::chrono::steady_clock::time_point taken;  // when the answer was there
  std::vector<MetricSample> samples;
};

// Asks `address` (host:port or http://host:port/path; the path is /metrics when there is none) of a softmax-server.
// Blocks for `timeout` at most, apart from looking up a name; any thread may call. The error's message is one line that
// names the address and stands on its own: a run goes on without the server's figures.
absl::StatusOr<MetricsSnapshot> FetchMetrics(std::string_view address, std::chrono::milliseconds timeout);

// The snapshots of several servers as one, in which counts add up; a single one is returned as it is.
MetricsSnapshot Together(const std::vector<MetricsSnapshot>& snapshots);

// What happened between two snapshots of one server, or of several together, as the object "server" of a run:
//   address, window_s, version, commit, backend
//   requests           answered by Softmax and SoftmaxStream; requests_by_code {"OK": n}; rejected {"queue_full": n}
//   stages             {request, queue, batch, execution}: {count, mean_us, p50_us, p99_us, buckets}; request is from
//                      the last byte in to the answer handed to the transport; execution counts batches, not requests
//   batches            {count, rows, requests, bytes}: the last three {count, mean, p50, p99, buckets}
//   closing            batches by why they were closed {"idle": n}
//   rows, input_bytes, output_bytes, copied_in_bytes, copied_out_bytes
//   cpu_cores          the server's own; resident_bytes: at the end of the window
//                      (of several servers all these are sums, and what differs between them is joined with commas)
//   gpu                {"name{labels}": value} of all metrics whose name says gpu or cuda: counters as their
//                      difference, gauges as they stood last; empty when there are none
//   warnings           lines of text, such as a restart within the window: its counts are then those since the restart
// Quantiles are interpolated within a bucket {above, le, n} and so no finer than these; what has no value (no
// observation, no such metric) is null.
nlohmann::json ServerDelta(const MetricsSnapshot& before, const MetricsSnapshot& after);

// The same as JSON text, for those who need not know the library.
std::string ServerDeltaText(const MetricsSnapshot& before, const MetricsSnapshot& after);

}  // namespace softmax::client
