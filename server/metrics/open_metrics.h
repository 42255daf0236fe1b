#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "server/metrics/metrics.h"

namespace softmax::server {

// The text of OpenMetrics 1.0, which prometheus-cpp does not write: as Prometheus' own, but that a counter's family is
// named without _total, bounds are floats, and the end is said. Of `exemplars`, the newest of each bucket stands behind
// the bucket of softmax_request_duration_seconds.
std::string OpenMetricsText(const std::vector<prometheus::MetricFamily>& families, std::vector<Exemplar> exemplars);

// Whether the head of a request would rather have that than Prometheus' text, by its Accept header.
bool WantsOpenMetrics(const std::string& head);

}  // namespace softmax::server
