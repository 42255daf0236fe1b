#include "client/loadgen/plan/arrivals.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/text_file.h"

namespace softmax::client {
namespace {

constexpr std::size_t kMaxSteps = 10000;
constexpr double kMaxRate = 1e8;
// Seconds that a window is open behind the last arrival of a trace, so that it and its answer belong to it.
constexpr double kLeastAfterLast = 0.1;
constexpr std::size_t kMostTraceBytes = std::size_t{1} << 30;

absl::Status Wrong(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" ", why));
}

bool ParseRate(absl::string_view text, double* rate) {
  return absl::SimpleAtod(text, rate) && std::isfinite(*rate) && *rate > 0 && *rate <= kMaxRate;
}

absl::Status AddSegment(absl::string_view text, std::vector<RateSegment>* segments) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
  absl::Duration duration;
  if (!absl::ParseDuration(parts.second, &duration) || duration <= absl::ZeroDuration() ||
      duration > absl::Hours(1000)) {
    return Wrong(text, "needs a duration above 0 behind an @, such as 100@5s");
  }
  const double seconds = absl::ToDoubleSeconds(duration);
  const std::size_t dots = parts.first.find("..");
  double from = 0;
  if (!ParseRate(parts.first.substr(0, dots), &from)) {
    return Wrong(text, "needs a rate above 0 and of at most 1e8 per second");
  }
  if (dots == absl::string_view::npos) {
    segments->push_back({from, from, seconds});
    return absl::OkStatus();
  }
  const std::pair<absl::string_view, absl::string_view> range =
      absl::StrSplit(parts.first.substr(dots + 2), absl::MaxSplits('/', 1));
  double to = 0;
  if (!ParseRate(range.first, &to)) return Wrong(text, "needs a rate above 0 and of at most 1e8 on both sides of ..");
  if (parts.first.find('/') == absl::string_view::npos) {
    segments->push_back({from, to, seconds});
    return absl::OkStatus();
  }
  double step = 0;
  if (!ParseRate(range.second, &step)) return Wrong(text, "needs a step above 0 behind the /");
  const double steps = std::floor(std::abs(to - from) / step + 1e-9);
  if (steps > kMaxSteps) return Wrong(text, absl::StrCat("has more than ", kMaxSteps, " steps"));
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    const double rate = to < from ? from - i * step : from + i * step;
    segments->push_back({rate, rate, seconds});
  }
  return absl::OkStatus();
}

double ArrivalsOf(const RateSegment& segment) { return (segment.from_per_s + segment.to_per_s) / 2 * segment.seconds; }

// Where in the segment its first `count` arrivals have come, from rate * t + slope * t^2 / 2 = count, in the form that
// is exact for small slopes too.
double SecondsWithin(const RateSegment& segment, double count) {
  const double slope = (segment.to_per_s - segment.from_per_s) / segment.seconds;
  const double under = std::max(0.0, segment.from_per_s * segment.from_per_s + 2 * slope * count);
  return 2 * count / (segment.from_per_s + std::sqrt(under));
}

// The moment, in seconds from the beginning, at which `count` arrivals are expected; nothing: after the end.
std::optional<double> SecondsOf(const std::vector<RateSegment>& segments, double count) {
  double begin = 0;
  for (const RateSegment& segment : segments) {
    const double arrivals = ArrivalsOf(segment);
    // What stands exactly on a border belongs to the later segment, up to the rounding of sums.
    if (count < arrivals - 1e-6) return begin + SecondsWithin(segment, count);
    count = std::max(0.0, count - arrivals);
    begin += segment.seconds;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<RateSegment>> ParseSchedule(absl::string_view text) {
  std::vector<RateSegment> segments;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::Status added = AddSegment(absl::StripAsciiWhitespace(part), &segments);
    if (!added.ok()) return added;
  }
  return segments;
}

absl::StatusOr<std::vector<TraceEntry>> ParseTrace(absl::string_view text, std::size_t shapes) {
  std::vector<TraceEntry> entries;
  std::size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(", \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const auto wrong = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", why));
    };
    double seconds = 0;
    if (!absl::SimpleAtod(words[0], &seconds) || !(seconds >= 0) || seconds > 1e7) {
      return wrong(absl::StrCat("\"", words[0], "\" is not a number of seconds from 0 to 1e7"));
    }
    TraceEntry entry;
    entry.offset_ns = std::llround(seconds * 1e9);
    if (!entries.empty() && entry.offset_ns < entries.back().offset_ns) return wrong("is before the line above it");
    if (words.size() > 2) return wrong("has more than a time and the index of a shape");
    if (words.size() == 2 && (!absl::SimpleAtoi(words[1], &entry.shape) || entry.shape < 0 ||
                              static_cast<std::size_t>(entry.shape) >= shapes)) {
      return wrong(absl::StrCat("\"", words[1], "\" is not the index of one of the ", shapes, " shapes"));
    }
    entries.push_back(entry);
  }
  if (entries.empty()) return absl::InvalidArgumentError("has no arrivals");
  return entries;
}

absl::StatusOr<std::vector<TraceEntry>> ReadTrace(const std::string& path, std::size_t shapes) {
  std::string text;
  const std::string problem = ReadTextFile(path, kMostTraceBytes, &text);
  if (!problem.empty()) return absl::InvalidArgumentError(problem);
  return ParseTrace(text, shapes);
}

double ArrivalPlan::InitialRate() const {
  if (!trace) return segments.front().from_per_s;
  return static_cast<double>(trace->size()) / Seconds();
}

double ArrivalPlan::Seconds() const {
  if (!trace) {
    return std::accumulate(segments.begin(), segments.end(), 0.0,
                           [](double sum, const RateSegment& segment) { return sum + segment.seconds; });
  }
  const double last = static_cast<double>(trace->back().offset_ns) / 1e9;
  const double gap = trace->size() > 1 ? last / static_cast<double>(trace->size() - 1) : 0;
  return last + std::max(gap, kLeastAfterLast);
}

ArrivalSequence::ArrivalSequence(const ArrivalPlan& plan, std::uint64_t index, std::uint64_t count)
    : plan_(plan), index_(index), count_(count), random_(plan.seed) {}

std::optional<Arrival> ArrivalSequence::Next() {
  for (;;) {
    const std::optional<Arrival> arrival = Step();
    if (!arrival || arrival->position % count_ == index_) return arrival;
  }
}

std::optional<Arrival> ArrivalSequence::Step() {
  const std::uint64_t position = position_++;
  if (plan_.trace) {
    if (position >= plan_.trace->size()) return std::nullopt;
    const TraceEntry& entry = (*plan_.trace)[position];
    return Arrival{position, entry.offset_ns, entry.shape};
  }
  if (plan_.kind == ArrivalKind::kPoisson) {
    const double uniform = static_cast<double>(random_() >> 11) * 0x1p-53;  // in [0, 1)
    expected_ -= std::log1p(-uniform);
  } else {
    expected_ = static_cast<double>(position);
  }
  const std::optional<double> seconds = SecondsOf(plan_.segments, expected_);
  if (!seconds) return std::nullopt;
  return Arrival{position, std::llround(*seconds * 1e9), -1};
}

}  // namespace softmax::client
