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

namespace softmax::server {

// A batch cut into pieces of rows that any worker may take. Lives until `done` has run.
struct CpuJob {
  struct Piece {
    kernels::Segment segment;
    const kernels::SummarySegment* summary = nullptr;  // what is run of its rows; nullptr: a whole answer of segment's
    std::int64_t row_begin = 0;
    std::int64_t row_end = 0;
  };
  kernels::DataType input_type = kernels::DataType::kFloat32;
  kernels::DataType output_type = kernels::DataType::kFloat32;
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

}  // namespace softmax::server
