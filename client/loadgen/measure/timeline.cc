#include "client/loadgen/measure/timeline.h"

#include <algorithm>

namespace softmax::client {

TimelineReader::TimelineReader(const Board& board) : board_(board), before_(std::make_unique<Histogram>()) {}

TimelinePoint TimelineReader::Read(double t_s) {
  auto now = std::make_unique<Histogram>();
  TimelinePoint totals;
  board_.EachThread([&](const ThreadTally& thread) {
    now->Merge(thread.warmup);
    totals.sent += thread.sent.load(std::memory_order_relaxed);
    totals.answered += thread.answers.load(std::memory_order_relaxed);
    for (const auto& count : thread.errors) totals.errors += count.load(std::memory_order_relaxed);
  });
  for (std::size_t c = 0; c < board_.classes(); ++c) {
    board_.EachOfClass(c, [&](const ClassTally& tally) { now->Merge(tally.latency); });
  }
  TimelinePoint point;
  point.t_s = t_s;
  point.sent = totals.sent - totals_.sent;
  point.answered = totals.answered - totals_.answered;
  point.errors = totals.errors - totals_.errors;
  if (point.answered > 0) {
    point.p50_us = static_cast<double>(now->QuantileSince(before_.get(), 0.5)) / 1e3;
    point.p99_us = static_cast<double>(now->QuantileSince(before_.get(), 0.99)) / 1e3;
  }
  totals_ = totals;
  before_ = std::move(now);
  return point;
}

bool LastAgree(const std::vector<TimelinePoint>& points, double within) {
  constexpr std::ptrdiff_t kWindows = 3;
  if (points.size() < kWindows) return false;
  const auto agree = [&](auto figure) {
    const auto [least, most] = std::minmax_element(points.end() - kWindows, points.end(),
                                                   [&](const auto& a, const auto& b) { return figure(a) < figure(b); });
    return figure(*most) > 0 && figure(*most) - figure(*least) <= within * figure(*most);
  };
  return agree([](const TimelinePoint& p) { return static_cast<double>(p.answered); }) &&
         agree([](const TimelinePoint& p) { return p.answered > 0 ? p.p50_us : 0; });
}

}  // namespace softmax::client
