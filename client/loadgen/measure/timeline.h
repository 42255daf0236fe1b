#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "client/loadgen/measure/board.h"

namespace softmax::client {

// Of what was not measured.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// What happened between the point before and this one.
struct TimelinePoint {
  double t_s = 0;  // the end of the stretch, from the start of the window
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;  // answers that came, whenever their requests were due
  std::uint64_t errors = 0;
  double p50_us = kUnknown;  // kUnknown without an answer
  double p99_us = kUnknown;
};

// Reads the board from time to time and notes what is new. Used by the parent. The board must outlive it.
class TimelineReader {
 public:
  explicit TimelineReader(const Board& board);

  // What came since the last call.
  TimelinePoint Read(double t_s);

 private:
  const Board& board_;
  std::unique_ptr<Histogram> before_;  // all latencies at the last call, warm-up included
  TimelinePoint totals_;               // the counts at the last call
};

// Whether the last three points agree: their rates and medians differ by at most this fraction of the largest.
bool LastAgree(const std::vector<TimelinePoint>& points, double within);

}  // namespace softmax::client
