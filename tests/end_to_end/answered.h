#pragma once

#include "client/loadgen/scrape/http_get.h"
#include "client/loadgen/scrape/metrics_window.h"
#include "tests/end_to_end/server_process.h"

namespace softmax::testing {

// What this process of a server has answered well so far, by its metrics; -1: it does not say.
inline double Answered(const ServerProcess& server) {
  const auto location = client::ParseHttpLocation(server.metrics(), "/metrics");
  const auto text = location.ok() ? client::HttpGet(*location, {}) : location.status();
  const auto samples = text.ok() ? client::ParseMetrics(*text) : text.status();
  if (!samples.ok()) return -1;
  double answered = 0;
  for (const client::MetricSample& sample : *samples) {
    if (sample.name == "softmax_requests_total" && sample.Label("code") == "OK") answered += sample.value;
  }
  return answered;
}

}  // namespace softmax::testing
