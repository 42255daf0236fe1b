#include "server/metrics/open_metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <iomanip>
#include <set>
#include <sstream>
#include <string_view>

namespace softmax::server {
namespace {

constexpr std::string_view kTotal = "_total";
constexpr std::string_view kBound = "le=\"";
constexpr std::string_view kWithExemplars = "softmax_request_duration_seconds_bucket{";

// "# TYPE softmax_requests_total counter": the name begins at the third word.
constexpr std::size_t kNameAt = std::string_view("# TYPE ").size();

std::string CounterHead(const std::string& line, const std::set<std::string>& counters) {
  const std::size_t end = line.find(' ', kNameAt);
  const std::string name = line.substr(kNameAt, end - kNameAt);
  if (!counters.contains(name)) return line;
  return line.substr(0, kNameAt) + name.substr(0, name.size() - kTotal.size()) + line.substr(end);
}

// The text of a HELP line has quotation marks escaped here, and not there.
std::string Escaped(const std::string& line) {
  std::string escaped;
  for (const char c : line) {
    if (c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string FloatBound(const std::string& line) {
  const std::size_t at = line.find(kBound);
  if (at == std::string::npos) return line;
  const std::size_t begin = at + kBound.size();
  const std::size_t end = line.find('"', begin);
  const bool whole =
      std::all_of(line.begin() + static_cast<std::ptrdiff_t>(begin), line.begin() + static_cast<std::ptrdiff_t>(end),
                  [](unsigned char c) { return std::isdigit(c) != 0; });
  return whole ? line.substr(0, end) + ".0" + line.substr(end) : line;
}

// Takes the exemplars that are of this bucket, or of one before it, from `exemplars`: " # {trace_id="..."} 1.5
// 1700000000.25" of the newest; empty: there is none. The lines of a histogram come with its bounds ascending.
std::string TakeExemplar(const std::string& line, std::vector<Exemplar>* exemplars) {
  if (exemplars->empty() || !line.starts_with(kWithExemplars)) return {};
  const double bound = std::strtod(line.c_str() + line.find(kBound) + kBound.size(), nullptr);
  const auto is_of_it = [&](const Exemplar& exemplar) {
    return std::chrono::duration<double>(exemplar.value).count() <= bound &&
           line.find("method=\"" + std::string(NameOf(exemplar.method)) + '"') != std::string::npos;
  };
  const auto taken = std::partition(exemplars->begin(), exemplars->end(), std::not_fn(is_of_it));
  if (taken == exemplars->end()) return {};
  const auto newest =
      std::max_element(taken, exemplars->end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  std::ostringstream text;
  text << " # {trace_id=\"" << newest->trace_id << "\"} " << std::chrono::duration<double>(newest->value).count() << ' '
       << std::fixed << std::setprecision(3) << std::chrono::duration<double>(newest->time.time_since_epoch()).count();
  exemplars->erase(taken, exemplars->end());
  return text.str();
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// How much one of the header's alternatives, such as "text/plain;version=0.0.4;q=0.5", is wanted.
double QualityOf(const std::string& alternative) {
  const std::size_t at = alternative.find(";q=");
  return at == std::string::npos ? 1 : std::strtod(alternative.c_str() + at + 3, nullptr);
}

}  // namespace

std::string OpenMetricsText(const std::vector<prometheus::MetricFamily>& families, std::vector<Exemplar> exemplars) {
  std::set<std::string> counters;
  for (const prometheus::MetricFamily& family : families) {
    if (family.type == prometheus::MetricType::Counter && family.name.ends_with(kTotal)) counters.insert(family.name);
  }
  std::istringstream lines(prometheus::TextSerializer().Serialize(families));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      text += Escaped(CounterHead(line, counters));
    } else if (line.starts_with("# TYPE ")) {
      text += CounterHead(line, counters);
    } else {
      text += FloatBound(line) + TakeExemplar(line, &exemplars);
    }
    text += '\n';
  }
  return text + "# EOF\n";
}

bool WantsOpenMetrics(const std::string& head) {
  std::istringstream lines(head);
  double open = 0;
  double plain = 0;
  for (std::string line; std::getline(lines, line);) {
    line = Lower(line);
    std::erase_if(line, [](unsigned char c) { return std::isspace(c) != 0; });
    if (!line.starts_with("accept:")) continue;
    std::istringstream alternatives(line.substr(std::string_view("accept:").size()));
    for (std::string one; std::getline(alternatives, one, ',');) {
      const bool is_other_version =
          one.find(";version=") != std::string::npos && one.find(";version=1.0.0") == std::string::npos;
      if (one.starts_with("application/openmetrics-text") && !is_other_version) open = std::max(open, QualityOf(one));
      if (one.starts_with("text/plain")) plain = std::max(plain, QualityOf(one));
    }
  }
  return open > plain;
}

}  // namespace softmax::server
