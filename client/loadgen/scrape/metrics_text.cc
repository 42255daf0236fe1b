#include "client/loadgen/scrape/metrics_text.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "common/base/trimmed.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMostSamples = 200'000;

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_' || c == ':'; }
// All of the word, or it is no number. Takes "+Inf", "-Inf" and "NaN".
template <typename Number>
bool ReadNumber(std::string_view word, Number* out) {
  if (word.starts_with('+') && !word.starts_with("+-")) word.remove_prefix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *out);
  return error == std::errc() && end == word.data() + word.size();
}

bool IsName(char c) { return IsNameStart(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// Reads one line from its front. A reader that returns text says what is wrong; empty text is success.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  std::string_view Read(MetricSample* out) {
    if (!ReadName(&out->name)) return "a metric's name is missing";
    SkipBlanks();
    if (Take('{')) {
      if (const std::string_view error = ReadLabels(out); !error.empty()) return error;
    }
    SkipBlanks();
    if (!ReadNumber(Word(), &out->value)) return "the value is not a number";
    SkipBlanks();
    std::int64_t timestamp = 0;
    if (!rest_.empty() && !ReadNumber(Word(), &timestamp)) return "the timestamp is not a whole number";
    SkipBlanks();
    return rest_.empty() ? "" : "there is text after the sample";
  }

 private:
  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void SkipBlanks() {
    while (Take(' ') || Take('\t')) {
    }
  }

  std::string_view Word() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t"));
    rest_.remove_prefix(word.size());
    return word;
  }

  bool ReadName(std::string* out) {
    if (rest_.empty() || !IsNameStart(rest_.front())) return false;
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), IsName);
    *out = std::string(rest_.begin(), end);
    rest_.remove_prefix(out->size());
    return true;
  }

  // After the opening brace. A comma may follow the last label.
  std::string_view ReadLabels(MetricSample* out) {
    while (true) {
      SkipBlanks();
      if (Take('}')) return "";
      auto& [name, value] = out->labels.emplace_back();
      if (!ReadName(&name)) return "a label's name is missing";
      SkipBlanks();
      if (!Take('=')) return "a label has no value";
      SkipBlanks();
      if (!ReadQuoted(&value)) return "a label's value is not in closed quotes";
      SkipBlanks();
      if (!Take(',') && (rest_.empty() || rest_.front() != '}')) return "the labels are not closed";
    }
  }

  bool ReadQuoted(std::string* out) {
    if (!Take('"')) return false;
    while (!rest_.empty()) {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return true;
      if (c == '\\') {
        if (rest_.empty()) return false;
        c = rest_.front() == 'n' ? '\n' : rest_.front();
        rest_.remove_prefix(1);
      }
      out->push_back(c);
    }
    return false;
  }

  std::string_view rest_;
};

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
    if (const std::string error(LineReader(line).Read(&samples.emplace_back())); !error.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, " is not in Prometheus' text format: ", error));
    }
  }
  return samples;
}

}  // namespace softmax::client
