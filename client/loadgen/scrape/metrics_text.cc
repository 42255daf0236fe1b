#include "client/loadgen/scrape/metrics_text.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

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

}  // namespace softmax::client
