#include "server/rpc/oip/model_statistics.h"

#include <algorithm>
#include <utility>

namespace softmax::server {
void ThreadModelCounts::Count(const InferModel& model, const RequestSample& sample, std::uint64_t rows,
                              const Answer* answer, TimePoint now) {
  Counts& counts = counts_[IndexOf(model, InferModels())];
  if (sample.code != 0) {
    counts.failed.Add(1);
    counts.failed_ns.Add(CountOf(sample.total));
    return;
  }
  counts.succeeded.Add(1);
  counts.succeeded_ns.Add(CountOf(sample.total));
  counts.last.store(now, std::memory_order_relaxed);
  if (answer == nullptr || !answer->ran) return;
  counts.queue_ns.Add(CountOf(answer->queue + answer->batch));
  counts.execution_ns.Add(CountOf(answer->execution));
  counts.rows.Add(rows);
  // A thread's batches complete one after the other, and no two are launched at one time.
  if (std::exchange(counts.launched, answer->launched) != answer->launched) counts.batches.Add(1);
}

void ThreadModelCounts::AddTo(std::size_t model, ModelTotals* totals) const {
  const Counts& counts = counts_[model];
  totals->succeeded += counts.succeeded.Get();
  totals->succeeded_ns += counts.succeeded_ns.Get();
  totals->failed += counts.failed.Get();
  totals->failed_ns += counts.failed_ns.Get();
  totals->queue_ns += counts.queue_ns.Get();
  totals->execution_ns += counts.execution_ns.Get();
  totals->rows += counts.rows.Get();
  totals->batches += counts.batches.Get();
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
