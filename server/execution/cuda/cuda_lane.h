#pragma once

#include <absl/status/statusor.h>
#include <cuda_runtime_api.h>

#include <deque>
#include <memory>
#include <vector>

#include "kernels/softmax.h"
#include "server/batching/lane.h"
#include "server/execution/faults.h"

namespace softmax::server {

// Runs batches on one CUDA stream: one kernel launch a batch, which reads and writes the mapped pinned arena itself,
// and a completion flag in mapped memory that the launch's last block writes and Poll reads. Batches finish in order.
// Inputs in pieces are brought together in the device's memory first, by a launch of their own, and a batch with
// summaries and whole answers takes a launch for each.
class CudaLane final : public Lane {
 public:
  struct Options {
    int device = 0;
    std::uint32_t max_in_flight = 2;
    std::size_t scratch_bytes = 0;          // per batch in flight
    std::size_t summary_scratch_bytes = 0;  // the same, for summaries
    std::size_t staging_bytes = 0;          // the same, in the device's memory; 0: no batch has pieces to gather
    std::size_t summary_bytes = 0;          // of the device's memory, for summaries: SummaryWorkspaceBytes of any batch
    FaultPlan* faults = nullptr;            // null: none
  };

  // RESOURCE_EXHAUSTED: the device or the host has no memory for it.
  static absl::StatusOr<std::unique_ptr<CudaLane>> Create(const Options& options);
  ~CudaLane() override;  // Waits for the stream.

  void Launch(Batch* batch) override;
  Batch* Poll() override;
  bool needs_polling() const override { return true; }
  std::uint64_t gather_bytes() const override { return options_.staging_bytes; }

 private:
  // Host memory that one batch in flight uses, apart from its span.
  struct Slot {
    std::byte* scratch = nullptr;          // of whole answers' launch
    std::byte* summary_scratch = nullptr;  // of the summaries'
    std::byte* staging = nullptr;          // device memory
    volatile std::uint32_t* flag = nullptr;
    std::uint32_t value = 0;  // what the flag will read when the batch in it has finished
  };

  explicit CudaLane(const Options& options) : options_(options) {}
  absl::Status Initialize();
  absl::Status AllocateMemory();
  absl::Status AllocateDeviceMemory();
  cudaError_t LaunchSummaries(const Batch& batch, const Slot& slot, const kernels::Completion& completion);
  kernels::Placement PlacementOf(const Batch& batch) const;
  cudaError_t LaunchKernel(const Batch& batch, const Slot& slot, const kernels::Completion& completion);
  void FailBatch(Batch* batch, const char* what, cudaError_t error);
  bool IsBroken() const;
  bool Finished(const Batch& batch);

  const Options options_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t* workspace_ = nullptr;      // device memory
  std::byte* staging_ = nullptr;            // device memory, of all slots
  std::size_t staging_stride_ = 0;          // from one slot's to the next
  std::byte* summary_workspace_ = nullptr;  // device memory
  std::vector<kernels::Segment> patched_;
  std::vector<kernels::SummarySegment> patched_summaries_;
  std::byte* host_block_ = nullptr;  // mapped pinned: all flags and scratch
  std::vector<Slot> slots_;
  std::uint32_t next_slot_ = 0;
  std::uint32_t polls_ = 0;
  std::deque<Batch*> running_;  // in launch order
  std::deque<Batch*> failed_;
};

}  // namespace softmax::server
