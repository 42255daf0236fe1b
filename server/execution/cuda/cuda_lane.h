#pragma once

#include <absl/status/statusor.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include "server/batching/lane.h"

namespace softmax::server {

// A failure that a device does not recover from, shared by its lanes. The first is kept.
class CudaHealth {
 public:
  void Fail(const std::string& what) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> failed_{false};
  mutable Mutex mu_;
  std::string what_ ABSL_GUARDED_BY(mu_);
};

// Runs batches on one CUDA stream: one kernel launch a batch, which reads and writes the mapped pinned arena itself,
// and a completion flag in mapped memory that the launch's last block writes and Poll reads. Batches finish in order.
class CudaLane final : public Lane {
 public:
  struct Options {
    int device = 0;
    std::uint32_t max_in_flight = 2;
    std::size_t scratch_bytes = 0;  // per batch in flight
  };

  static absl::StatusOr<std::unique_ptr<CudaLane>> Create(const Options& options, CudaHealth& health);
  ~CudaLane() override;  // Waits for the stream.

  void Launch(Batch* batch) override;
  Batch* Poll() override;
  bool needs_polling() const override { return true; }

 private:
  // Host memory that one batch in flight uses, apart from its span.
  struct Slot {
    std::byte* scratch = nullptr;
    volatile std::uint32_t* flag = nullptr;
    std::uint32_t value = 0;  // what the flag will read when the batch in it has finished
  };

  CudaLane(const Options& options, CudaHealth& health) : options_(options), health_(health) {}
  absl::Status Initialize();
  void FailBatch(Batch* batch, const char* what, cudaError_t error);
  bool Finished(const Batch& batch);

  const Options options_;
  CudaHealth& health_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t* workspace_ = nullptr;  // device memory
  std::byte* host_block_ = nullptr;     // mapped pinned: all flags and scratch
  std::vector<Slot> slots_;
  std::uint32_t next_slot_ = 0;
  std::uint32_t polls_ = 0;
  std::deque<Batch*> running_;  // in launch order
  std::deque<Batch*> failed_;
};

}  // namespace softmax::server
