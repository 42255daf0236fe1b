#include "server/execution/cpu/cpu_pool.h"

#include "kernels/cpu/softmax_cpu.h"

namespace softmax::server {

CpuPool::CpuPool(std::uint32_t threads) {
  for (std::uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

CpuPool::~CpuPool() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

void CpuPool::RunPiece(const CpuJob& job, const CpuJob::Piece& piece) {
  if (piece.summary != nullptr) {
    return kernels::cpu::Summarize(job.input_type, job.output_type, *piece.summary, piece.row_begin, piece.row_end);
  }
  kernels::cpu::Softmax(job.input_type, job.output_type, piece.segment, piece.row_begin, piece.row_end);
}

void CpuPool::Submit(std::shared_ptr<CpuJob> job) {
  const bool many = job->pieces.size() > 1;
  {
    MutexLock lock(mu_);
    jobs_.push_back(std::move(job));
  }
  if (many) {
    changed_.notify_all();
  } else {
    changed_.notify_one();
  }
}

void CpuPool::Run() {
  while (true) {
    std::shared_ptr<CpuJob> job;
    {
      MutexLock lock(mu_);
      while (jobs_.empty()) {
        if (stopping_) return;
        changed_.wait(mu_);
      }
      job = jobs_.front();
      // The worker that sees the last piece taken removes the job, so that the others go on to the next.
      if (job->next.load(std::memory_order_relaxed) >= job->pieces.size()) {
        jobs_.pop_front();
        continue;
      }
    }
    while (true) {
      const std::size_t index = job->next.fetch_add(1, std::memory_order_relaxed);
      if (index >= job->pieces.size()) break;
      RunPiece(*job, job->pieces[index]);
      if (job->left.fetch_sub(1, std::memory_order_acq_rel) == 1) job->done();
    }
  }
}

}  // namespace softmax::server
