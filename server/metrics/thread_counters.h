#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "server/metrics/histogram.h"
#include "server/metrics/metrics.h"

namespace softmax::server {

constexpr std::size_t kMethods = 6;
constexpr std::size_t kCodes = 17;  // grpc::StatusCode 0 to 16; anything else counts as UNKNOWN
constexpr std::size_t kCloseReasons = 5;
constexpr std::size_t kRefuseReasons = 7;

// The sum of all threads at one scrape.
struct CounterTotals {
  std::array<std::array<std::uint64_t, kCodes>, kMethods> requests{};
  std::array<HistogramTotals<kTimeBounds.size()>, kMethods> request_time;
  HistogramTotals<kTimeBounds.size()> queue_time, batch_wait, execution, lag;
  HistogramTotals<kRowBounds.size()> batch_rows;
  HistogramTotals<kRequestBounds.size()> batch_requests;
  HistogramTotals<kByteBounds.size()> batch_bytes;
  std::array<std::uint64_t, kCloseReasons> batches{};
  std::array<std::uint64_t, kRefuseReasons> rejected{};
  std::array<std::uint64_t, kAnswerKinds> answers{};
  std::array<std::uint64_t, kCounters> counters{};
};

// One thread's counts. 128: neighbouring cache lines are fetched in pairs, so two threads' counters must not
// share a pair.
class alignas(128) ThreadCounters final : public Recorder {
 public:
  void RequestFinished(const RequestSample& sample) override;
  void RequestRefused(RefuseReason reason) override;
  void BatchFinished(const BatchSample& sample) override;
  void Add(Counter counter, std::uint64_t count) override;
  void InTrace(const RequestSample& sample, std::string_view trace_id) override ABSL_LOCKS_EXCLUDED(mu_);
  void CameLate(Nanoseconds late) override;

  // Any thread. Every number is a true past value; two of them may be from slightly different
  // moments.
  void AddTo(CounterTotals* totals) const;
  void AddTo(std::vector<Exemplar>* exemplars) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::array<std::array<ThreadCounter, kCodes>, kMethods> requests_;
  std::array<ShardHistogram<kTimeBounds>, kMethods> request_time_;
  ShardHistogram<kTimeBounds> queue_time_, batch_wait_, execution_, lag_;
  ShardHistogram<kRowBounds> batch_rows_;
  ShardHistogram<kRequestBounds> batch_requests_;
  ShardHistogram<kByteBounds> batch_bytes_;
  std::array<ThreadCounter, kCloseReasons> batches_;
  std::array<ThreadCounter, kRefuseReasons> refused_;
  std::array<ThreadCounter, kAnswerKinds> answers_;
  std::array<ThreadCounter, kCounters> counters_;
  mutable Mutex mu_;  // of what is rare
  std::array<std::array<Exemplar, kTimeBounds.size() + 1>, kMethods> exemplars_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::server
