#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "kernels/types.h"
#include "server/batching/lane.h"

namespace softmax::server {

// A batch cut into pieces of rows that any worker may take. Lives until `done` has run.
struct CpuJob {
  struct Piece {
    kernels::Segment segment;
    const kernels::SummarySegment* summary = nullptr;  // what is run of its rows; nullptr: a whole answer of segment's
    std::int64_t row_begin = 0;
    std::int64_t row_end = 0;
  };
  CpuJob(kernels::DataType input, kernels::DataType output) : input_type(input), output_type(output) {}

  const kernels::DataType input_type;
  const kernels::DataType output_type;
  std::vector<Piece> pieces;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> left{0};
  std::function<void()> done;  // on the worker that ran the last piece; may delete the job
};

// Worker threads that run jobs in order, all of them on the oldest job that has pieces left.
class CpuPool {
 public:
  explicit CpuPool(std::uint32_t threads);
  ~CpuPool();  // Finishes what was submitted.

  void Submit(std::shared_ptr<CpuJob> job) ABSL_LOCKS_EXCLUDED(mu_);
  std::uint32_t threads() const { return static_cast<std::uint32_t>(threads_.size()); }

  // Runs one piece on the calling thread.
  static void RunPiece(const CpuJob& job, const CpuJob::Piece& piece);

 private:
  void Run();

  Mutex mu_;
  ConditionVariable changed_;
  std::deque<std::shared_ptr<CpuJob>> jobs_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::jthread> threads_;
};

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
