#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/wire/oip_models.h"
#include "server/base/counters.h"
#include "server/batching/pending_request.h"
#include "server/metrics/metrics.h"

namespace softmax::server {

// What ModelStatistics tells of one model. Times in nanoseconds, each over the requests that succeeded.
struct ModelTotals {
  std::uint64_t succeeded = 0;
  std::uint64_t succeeded_ns = 0;
  std::uint64_t failed = 0;
  std::uint64_t failed_ns = 0;
  std::uint64_t queue_ns = 0;      // for memory, and in the open batch
  std::uint64_t execution_ns = 0;  // launch to completion
  std::uint64_t rows = 0;
  std::uint64_t batches = 0;
  TimePoint last{};  // the last one's end; the clock's begin: never
};

// One thread's counts, written by it alone and read at any time.
class alignas(128) ThreadModelCounts {
 public:
  // `answer` may be null: the request did not run.
  void Count(const InferModel& model, const RequestSample& sample, std::uint64_t rows, const Answer* answer,
             TimePoint now);
  void AddTo(std::size_t model, ModelTotals* totals) const;

 private:
  struct Counts {
    ThreadCounter succeeded, succeeded_ns, failed, failed_ns, queue_ns, execution_ns, rows, batches;
    std::atomic<TimePoint> last{TimePoint{}};
    TimePoint launched{};  // the last batch that was counted; the thread's own
  };
  std::array<Counts, kInferModels> counts_;
};

// Of all threads. Thread-safe.
class ModelStatistics {
 public:
  ThreadModelCounts& AddThread() ABSL_LOCKS_EXCLUDED(mu_);
  ModelTotals Totals(std::size_t model) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  std::list<ThreadModelCounts> threads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace softmax::server
