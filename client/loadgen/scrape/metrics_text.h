#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace softmax::client {

// One line of Prometheus' text format 0.0.4.
struct MetricSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  // in the order of the text, unescaped
  double value = 0;                                         // may be NaN or infinite

  // Empty when there is no such label.
  std::string_view Label(std::string_view label) const;
};

// The samples of a scrape; comments and timestamps are passed over. INVALID_ARGUMENT names the line and what is wrong
// with it: like Prometheus itself, a scrape with one bad line is refused whole. RESOURCE_EXHAUSTED beyond
// 200,000 samples.
absl::StatusOr<std::vector<MetricSample>> ParseMetrics(std::string_view text);

}  // namespace softmax::client
