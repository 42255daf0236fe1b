#include "client/loadgen/scrape/metrics_window.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/base/trimmed.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMostSamples = 200'000;

// All of the word, or it is no number. Takes "+Inf", "-Inf" and "NaN".
template <typename Number>
bool ReadNumber(std::string_view word, Number* out) {
  if (word.starts_with('+') && !word.starts_with("+-")) word.remove_prefix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *out);
  return error == std::errc() && end == word.data() + word.size();
}

// One line without blanks around it.
bool ReadSample(std::string_view line, MetricSample* out) {
  // A name, labels in braces, a value, a time. A brace in a label's quotes ends nothing, and its bytes may be no UTF-8.
  static const RE2 whole(
      R"re(([a-zA-Z_:][\w:]*)(?:[ \t]*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}[ \t]*|[ \t]+)([^ \t]+)(?:[ \t]+([^ \t]+))?)re",
      RE2::Latin1);
  static const RE2 label(R"re([ \t]*([a-zA-Z_:][\w:]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$))re", RE2::Latin1);
  static const RE2 blanks(R"re([ \t]*)re", RE2::Latin1);
  re2::StringPiece labels;
  std::string value;
  std::string timestamp;
  std::int64_t unused = 0;
  if (!RE2::FullMatch(line, whole, &out->name, &labels, &value, &timestamp) || !ReadNumber(value, &out->value) ||
      (!timestamp.empty() && !ReadNumber(timestamp, &unused))) {
    return false;
  }
  for (std::string name, text; RE2::Consume(&labels, label, &name, &text);) {
    out->labels.emplace_back(name, absl::StrReplaceAll(text, {{"\\\\", "\\"}, {"\\n", "\n"}, {"\\\"", "\""}}));
  }
  return RE2::FullMatch(labels, blanks);
}

// Counters grow without end in the contract, not in what an unknown server may send.
constexpr double kLargestCount = 9e15;

double Clean(double value) { return value > 0 ? std::min(value, kLargestCount) : 0; }

bool IsCounter(std::string_view name) {
  return name.ends_with("_total") || name.ends_with("_bucket") || name.ends_with("_sum") || name.ends_with("_count");
}

// Nothing when the label is missing or no positive number: such a sample is no bucket of ours.
std::optional<double> UpperBound(const MetricSample& sample) {
  double le = 0;
  if (!ReadNumber(sample.Label("le"), &le) || !(le > 0)) return std::nullopt;
  return le;
}

void TrimEmptyEnds(std::vector<WindowHistogram::Bucket>* buckets) {
  const auto filled = [](const WindowHistogram::Bucket& bucket) { return bucket.n > 0; };
  buckets->erase(buckets->begin(), std::find_if(buckets->begin(), buckets->end(), filled));
  buckets->erase(std::find_if(buckets->rbegin(), buckets->rend(), filled).base(), buckets->end());
}

}  // namespace

std::string_view MetricSample::Label(std::string_view label) const {
  const auto found = std::find_if(labels.begin(), labels.end(), [&](const auto& pair) { return pair.first == label; });
  return found == labels.end() ? std::string_view() : found->second;
}

absl::StatusOr<std::vector<MetricSample>> ParseMetrics(std::string_view text) {
  std::vector<MetricSample> samples;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = Trimmed(line, " \t\n\v\f\r");
    if (line.empty() || line.front() == '#') continue;
    if (samples.size() == kMostSamples) {
      return absl::ResourceExhaustedError(absl::StrCat("more than ", kMostSamples, " samples"));
    }
    if (!ReadSample(line, &samples.emplace_back())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, " is not in Prometheus' text format, as name{label=\"value\", ...} value timestamp"));
    }
  }
  return samples;
}

std::optional<double> WindowHistogram::Mean() const {
  if (count <= 0 || !sum) return std::nullopt;
  return *sum / count;
}

std::optional<double> WindowHistogram::Quantile(double q, bool whole) const {
  if (count <= 0) return std::nullopt;
  double below = 0;
  const double rank = q * count;
  for (const Bucket& bucket : buckets) {
    if (below + bucket.n < rank && &bucket != &buckets.back()) {
      below += bucket.n;
      continue;
    }
    if (std::isinf(bucket.le)) return bucket.above;
    const double lowest = whole ? std::floor(bucket.above) + 1 : bucket.above;
    const double part = bucket.n > 0 ? std::clamp((rank - below) / bucket.n, 0.0, 1.0) : 1;
    const double value = lowest + (bucket.le - lowest) * part;
    if (whole) return std::round(value);
    const std::optional<double> mean = Mean();
    return mean ? std::min(value, *mean / (1 - q)) : value;
  }
  return std::nullopt;
}

MetricsWindow::MetricsWindow(const std::vector<MetricSample>& before, const std::vector<MetricSample>& after)
    : after_(after) {
  for (const MetricSample& sample : before) before_[KeyOf(sample)] = Clean(sample.value);
  for (const MetricSample& sample : after) {
    const auto found = before_.find(KeyOf(sample));
    if (found == before_.end()) continue;
    // The start is computed from the boot time, which the kernel may correct by a little.
    const bool later =
        sample.name == "process_start_time_seconds" && sample.value > found->second + 1 && found->second > 0;
    if (later || (IsCounter(sample.name) && Clean(sample.value) < found->second)) {
      restarted_.emplace(sample.Label(kServerLabel));
    }
  }
}

std::string MetricsWindow::KeyOf(const MetricSample& sample) {
  auto labels = sample.labels;
  std::sort(labels.begin(), labels.end());
  std::string key = sample.name;
  for (const auto& [name, value] : labels) key.append(1, '\0').append(name).append(1, '\0').append(value);
  return key;
}

double MetricsWindow::Growth(const MetricSample& sample) const {
  const auto found = before_.find(KeyOf(sample));
  const bool anew = found == before_.end() || restarted_.contains(sample.Label(kServerLabel));
  const double from = anew ? 0 : found->second;
  return Clean(Clean(sample.value) - from);
}

std::optional<double> MetricsWindow::Counter(std::string_view name, const Filter& filter) const {
  std::optional<double> sum;
  for (const MetricSample& sample : after_) {
    if (sample.name == name && (!filter || filter(sample))) sum = sum.value_or(0) + Growth(sample);
  }
  return sum;
}

std::map<std::string, double> MetricsWindow::CountersBy(std::string_view name, std::string_view label,
                                                        const Filter& filter) const {
  std::map<std::string, double> sums;
  for (const MetricSample& sample : after_) {
    if (sample.name != name || (filter && !filter(sample))) continue;
    if (const double growth = Growth(sample); growth > 0) sums[std::string(sample.Label(label))] += growth;
  }
  return sums;
}

WindowHistogram MetricsWindow::Histogram(const std::string& name, const Filter& filter) const {
  std::map<double, double> cumulative;
  for (const MetricSample& sample : after_) {
    if (sample.name != name + "_bucket" || (filter && !filter(sample))) continue;
    if (const std::optional<double> le = UpperBound(sample)) cumulative[*le] += Growth(sample);
  }
  WindowHistogram histogram;
  double above = 0;
  for (const auto& [le, until] : cumulative) {
    const double n = Clean(until - histogram.count);
    histogram.buckets.push_back({above, le, n});
    histogram.count += n;
    above = le;
  }
  TrimEmptyEnds(&histogram.buckets);
  histogram.sum = Counter(name + "_sum", filter);
  return histogram;
}

std::optional<double> MetricsWindow::Gauge(std::string_view name) const {
  std::optional<double> sum;
  for (const MetricSample& sample : after_) {
    if (sample.name == name && std::isfinite(sample.value)) sum = sum.value_or(0) + sample.value;
  }
  return sum;
}

}  // namespace softmax::client
