#include "server/execution/cpu/cpu_lane.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/softmax_cpu.h"

namespace softmax::server {
namespace {

// Bytes of input in one piece: enough to outweigh taking it, small enough to share a batch among the workers.
constexpr std::int64_t kPieceBytes = 64 << 10;
// Rows of another axis than the last share cache lines: pieces are cut at multiples of this
// (kernels/cpu/softmax_cpu.h).
constexpr std::int64_t kColumnTile = 16;

std::int64_t RowsPerPiece(const kernels::Segment& segment, std::int64_t element_bytes) {
  const std::int64_t row_bytes = std::max<std::int64_t>(1, segment.cols * element_bytes);
  std::int64_t rows = std::max<std::int64_t>(1, kPieceBytes / row_bytes);
  if (segment.inner > 1) rows = (rows + kColumnTile - 1) / kColumnTile * kColumnTile;
  return rows;
}

void Gather(const Batch& batch) {
  for (const kernels::GatherPiece& piece : batch.pieces()) {
    std::byte* const place = batch.span().address() + piece.offset;
    if (piece.source != place) std::memcpy(place, piece.source, piece.bytes);
  }
}

}  // namespace

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

CpuLane::~CpuLane() {
  MutexLock lock(mu_);
  while (on_pool_ > 0) changed_.wait(mu_);
}

void CpuLane::AddPieces(const kernels::Segment& segment, const kernels::SummarySegment* summary, CpuJob* job) {
  const std::int64_t rows = segment.outer * segment.inner;
  const std::int64_t step = RowsPerPiece(segment, static_cast<std::int64_t>(kernels::SizeOf(job->input_type)));
  for (std::int64_t row = 0; row < rows; row += step) {
    job->pieces.push_back(CpuJob::Piece{segment, summary, row, std::min(rows, row + step)});
  }
  job->left.store(job->pieces.size(), std::memory_order_relaxed);
}

void CpuLane::RunHere(const Batch& batch) {
  const CpuJob job(batch.input_type(), batch.output_type());
  for (const kernels::SummarySegment& summary : batch.summaries()) {
    CpuPool::RunPiece(job, CpuJob::Piece{summary.rows, &summary, 0, summary.rows.outer * summary.rows.inner});
  }
  for (const kernels::Segment& segment : batch.segments()) {
    CpuPool::RunPiece(job, CpuJob::Piece{segment, nullptr, 0, segment.outer * segment.inner});
  }
}

void CpuLane::Launch(Batch* batch) {
  batch->status = absl::OkStatus();
  Gather(*batch);
  if (RunsAtOnce(*batch)) {
    RunHere(*batch);
    finished_here_.push_back(batch);
    return;
  }
  const auto finished = [this, batch] { Finished(batch); };
  auto job = std::make_shared<CpuJob>(batch->input_type(), batch->output_type());
  for (const kernels::Segment& segment : batch->segments()) AddPieces(segment, nullptr, job.get());
  job->done = finished;
  if (!batch->summaries().empty()) {
    auto before = std::make_shared<CpuJob>(batch->input_type(), batch->output_type());
    for (const kernels::SummarySegment& summary : batch->summaries()) AddPieces(summary.rows, &summary, before.get());
    before->done = finished;
    if (!job->pieces.empty()) before->done = [this, job] { pool_.Submit(job); };
    job = std::move(before);
  }
  {
    MutexLock lock(mu_);
    ++on_pool_;
  }
  pool_.Submit(std::move(job));
}

void CpuLane::Finished(Batch* batch) {
  // The wake comes before the last touch of this: the destructor waits for on_pool_ under the lock.
  {
    MutexLock lock(mu_);
    finished_.push_back(batch);
    finished_count_.store(static_cast<std::uint32_t>(finished_.size()), std::memory_order_release);
  }
  wake_();
  MutexLock lock(mu_);
  --on_pool_;
  changed_.notify_all();
}

Batch* CpuLane::Poll() {
  if (Batch* const batch = TakeFront(finished_here_)) return batch;
  if (finished_count_.load(std::memory_order_acquire) == 0) return nullptr;
  MutexLock lock(mu_);
  Batch* const batch = TakeFront(finished_);
  finished_count_.store(static_cast<std::uint32_t>(finished_.size()), std::memory_order_relaxed);
  return batch;
}

}  // namespace softmax::server
