#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

// When an open loop sends: a sequence of times that is known before the run and does not depend on how the server
// answers. Pure: no clock, no thread.
namespace softmax::client {

// A stretch of the schedule over which the rate goes in a straight line from one value to the other.
struct RateSegment {
  double from_per_s = 0;
  double to_per_s = 0;
  double seconds = 0;
};

// "RATE@DURATION" is a steady rate, "A..B@DURATION" a ramp, "A..B/STEP@DURATION" steps that last DURATION each;
// several joined by commas follow one another: "200@10s,2000@500ms,200@10s". Rates are requests per second.
absl::StatusOr<std::vector<RateSegment>> ParseSchedule(absl::string_view text);

struct TraceEntry {
  std::int64_t offset_ns = 0;
  std::int32_t shape = -1;  // which of the run's shapes; -1: as the mix has it
};

// One arrival a line: seconds from the beginning, not before the line above, and optionally the index of a shape
// (0 is the first) behind a comma or a blank. Empty lines and what follows a # are skipped. Errors name the line.
absl::StatusOr<std::vector<TraceEntry>> ParseTrace(absl::string_view text, std::size_t shapes);
absl::StatusOr<std::vector<TraceEntry>> ReadTrace(const std::string& path, std::size_t shapes);

// Constant: evenly spaced. Poisson: independent, exponential gaps, as of many users who do not know each other.
enum class ArrivalKind { kConstant, kPoisson };

struct Arrival {
  std::uint64_t position = 0;  // 0 is the first of all senders together
  std::int64_t offset_ns = 0;  // from the beginning
  std::int32_t shape = -1;     // as in TraceEntry
};

// What an open loop follows. Either `segments` or `trace`.
struct ArrivalPlan {
  std::vector<RateSegment> segments;
  std::shared_ptr<const std::vector<TraceEntry>> trace;
  ArrivalKind kind = ArrivalKind::kConstant;
  std::uint64_t seed = 1;

  // At the beginning (of a trace: its mean): what the warm-up sends at.
  double InitialRate() const;
  // Of a trace: what its arrivals take at their mean rate, and at least 100 ms more than the last one's time.
  double Seconds() const;
};

// One sender's part of a plan: every `count`-th arrival, beginning with number `index`. All senders walk the same
// sequence, so it depends on the seed alone and not on how many there are. The plan must outlive it.
class ArrivalSequence {
 public:
  ArrivalSequence(const ArrivalPlan& plan, std::uint64_t index, std::uint64_t count);

  // The arrivals in order; nothing after the last one.
  std::optional<Arrival> Next();

 private:
  std::optional<Arrival> Step();

  const ArrivalPlan& plan_;
  const std::uint64_t index_;
  const std::uint64_t count_;
  std::mt19937_64 random_;
  std::uint64_t position_ = 0;
  double expected_ = 0;
};

}  // namespace softmax::client
