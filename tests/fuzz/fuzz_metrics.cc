// libFuzzer over what the load generator reads of others: a scrape in Prometheus' text format, and what is made of two
// of them (byte 0: 0 and 1; the second scrape begins behind the first zero byte), an HTTP answer (2), an address (3).
#include <nlohmann/json.hpp>
#include <string>

#include "client/loadgen/scrape/http_get.h"
#include "client/loadgen/scrape/metrics_window.h"
#include "client/loadgen/scrape/server_metrics.h"
#include "tests/fuzz/require.h"

namespace softmax::client {
namespace {

using softmax::testing::ExactCopy;
using softmax::testing::Require;
using softmax::testing::RequireReason;

std::vector<MetricSample> Samples(std::string_view text) {
  absl::StatusOr<std::vector<MetricSample>> samples = ParseMetrics(text);
  if (!samples.ok()) {
    RequireReason(std::string(samples.status().message()), 200);
    return {};
  }
  for (const MetricSample& sample : *samples) {
    Require(!sample.name.empty(), "a sample has a name");
    for (const auto& [name, value] : sample.labels) Require(!name.empty(), "a label has a name");
  }
  return *std::move(samples);
}

void CheckScrapes(std::string_view text) {
  const std::size_t cut = std::min(text.find('\0'), text.size());
  MetricsSnapshot before;
  MetricsSnapshot after;
  before.address = after.address = "127.0.0.1:9400";
  after.taken = before.taken + std::chrono::seconds(1);
  before.samples = Samples(text.substr(0, cut));
  after.samples = Samples(text.substr(std::min(cut + 1, text.size())));
  const nlohmann::json delta = ServerDelta(before, after);
  Require(delta.is_object() && delta.contains("stages"), "two scrapes make a report");
  Require(Together({before, after}).samples.size() == before.samples.size() + after.samples.size(),
          "no sample of two servers is lost");
}

void CheckAnswer(std::string_view answer) {
  constexpr std::size_t kLimit = 100;
  const absl::StatusOr<std::string> body = HttpBody(std::string(answer), kLimit);
  if (body.ok()) {
    Require(body->size() <= kLimit && body->size() < answer.size(), "a body is within its limit");
    Require(answer.find(*body) != std::string_view::npos, "and part of the answer");
  } else {
    RequireReason(std::string(body.status().message()), 200);
  }
}

void CheckLocation(std::string_view text) {
  const absl::StatusOr<HttpLocation> location = ParseHttpLocation(text, "/metrics");
  if (!location.ok()) {
    RequireReason(std::string(location.status().message()), text.size() + 200);
    return;
  }
  Require(location->path.starts_with('/') && !location->port.empty(), "a location has a port and a path");
}

}  // namespace
}  // namespace softmax::client

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const softmax::testing::ExactCopy copy(data + 1, size - 1);
  switch (data[0] & 3) {
    case 2:
      softmax::client::CheckAnswer(copy.text());
      break;
    case 3:
      softmax::client::CheckLocation(copy.text());
      break;
    default:
      softmax::client::CheckScrapes(copy.text());
  }
  return 0;
}
