#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"

namespace softmax::server {

// Logs requests that took long, with the times of their stages and the caller's names for them: a few a second, and how
// many more there were. Thread-safe; costs a comparison for a request that is not slow.
class SlowRequests {
 public:
  static constexpr std::uint32_t kLinesPerSecond = 10;

  // Before the first request. Zero: none is slow.
  void SetThreshold(Nanoseconds threshold) { threshold_ = threshold; }
  bool IsSlow(Nanoseconds total) const { return total >= threshold_ && threshold_.count() > 0; }

  // `peer` as people know it; `answer` may be null: the request did not run. `traceparent`: empty, or a valid one.
  void Report(const RequestSample& sample, std::uint64_t id, const Answer* answer, std::string_view traceparent,
              const std::string& peer);

 private:
  // Whether there is room for a line now, and how many were left out since the last one.
  bool Allowed(TimePoint now, std::uint64_t* left_out);

  Nanoseconds threshold_{0};
  std::atomic<std::int64_t> second_{0};
  std::atomic<std::uint32_t> lines_{0};
  std::atomic<std::uint64_t> left_out_{0};
};

}  // namespace softmax::server
