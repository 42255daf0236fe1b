#include "server/rpc/oip/model_statistics.h"

#include <algorithm>
#include <utility>

namespace softmax::server {
namespace {

void Increment(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

// A clock read on two cores may come out a little negative.
std::uint64_t Count64(Nanoseconds time) { return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)); }

std::uint64_t Get(const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); }

}  // namespace

void ThreadModelCounts::Count(const InferModel& model, const RequestSample& sample, std::uint64_t rows,
                              const Answer* answer, TimePoint now) {
  Counts& counts = counts_[IndexOf(model, InferModels())];
  if (sample.code != 0) {
    Increment(counts.failed, 1);
    Increment(counts.failed_ns, Count64(sample.total));
    return;
  }
  Increment(counts.succeeded, 1);
  Increment(counts.succeeded_ns, Count64(sample.total));
  counts.last.store(now, std::memory_order_relaxed);
  if (answer == nullptr || !answer->ran) return;
  Increment(counts.queue_ns, Count64(answer->queue + answer->batch));
  Increment(counts.execution_ns, Count64(answer->execution));
  Increment(counts.rows, rows);
  // A thread's batches complete one after the other, and no two are launched at one time.
  if (std::exchange(counts.launched, answer->launched) != answer->launched) Increment(counts.batches, 1);
}

void ThreadModelCounts::AddTo(std::size_t model, ModelTotals* totals) const {
  const Counts& counts = counts_[model];
  totals->succeeded += Get(counts.succeeded);
  totals->succeeded_ns += Get(counts.succeeded_ns);
  totals->failed += Get(counts.failed);
  totals->failed_ns += Get(counts.failed_ns);
  totals->queue_ns += Get(counts.queue_ns);
  totals->execution_ns += Get(counts.execution_ns);
  totals->rows += Get(counts.rows);
  totals->batches += Get(counts.batches);
  totals->last = std::max(totals->last, counts.last.load(std::memory_order_relaxed));
}

ThreadModelCounts& ModelStatistics::AddThread() {
  MutexLock lock(mu_);
  return threads_.emplace_back();
}

ModelTotals ModelStatistics::Totals(std::size_t model) const {
  ModelTotals totals;
  MutexLock lock(mu_);
  for (const ThreadModelCounts& thread : threads_) thread.AddTo(model, &totals);
  return totals;
}

}  // namespace softmax::server
