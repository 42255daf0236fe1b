#pragma once

#include <deque>
#include <functional>

#include "common/base/mutex.h"
#include "server/batching/lane.h"
#include "server/execution/cpu/cpu_pool.h"

namespace softmax::server {

// Runs batches on the CPU: small ones at once on the batcher's thread (handing over costs more than the work), larger
// ones cut into pieces on the pool. Batches may finish in any order.
class CpuLane final : public Lane {
 public:
  // Up to this much a batch is run in Launch: some 50 us of work. Two workers beside the batcher's thread would not
  // have it done sooner on a machine whose cores are busy, and waking them costs as much as the work.
  static constexpr std::uint64_t kInlineBytes = 512u << 10;
  // And no more of other work than this, in bytes carried: rows of a few elements, selections, entropies.
  static constexpr std::uint64_t kInlineWork = 2u << 20;

  // `gathers`: batches may have pieces to gather, which are copied in Launch.
  CpuLane(CpuPool& pool, std::function<void()> wake, bool gathers = false)
      : pool_(pool), wake_(std::move(wake)), gathers_(gathers) {}
  ~CpuLane() override;  // Waits for what it launched.

  void Launch(Batch* batch) override;
  bool RunsAtOnce(const Batch& batch) const override {
    return batch.bytes() <= kInlineBytes && batch.work() <= kInlineWork;
  }
  Batch* Poll() override ABSL_LOCKS_EXCLUDED(mu_);
  bool needs_polling() const override { return false; }
  std::uint64_t gather_bytes() const override { return gathers_ ? UINT64_MAX : 0; }

 private:
  static std::shared_ptr<CpuJob> NewJob(const Batch& batch);
  // `summary`: what is run of the segment's rows; nullptr: whole answers.
  static void AddPieces(const kernels::Segment& segment, const kernels::SummarySegment* summary, CpuJob* job);
  static void RunHere(const Batch& batch);
  void Finished(Batch* batch) ABSL_LOCKS_EXCLUDED(mu_);

  CpuPool& pool_;
  const std::function<void()> wake_;
  const bool gathers_;
  std::deque<Batch*> finished_here_;  // the batcher's thread only

  Mutex mu_;
  ConditionVariable changed_;
  std::deque<Batch*> finished_ ABSL_GUARDED_BY(mu_);
  std::atomic<std::uint32_t> finished_count_{0};
  std::uint32_t on_pool_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace softmax::server
