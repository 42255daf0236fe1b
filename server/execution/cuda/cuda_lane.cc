#include "server/execution/cuda/cuda_lane.h"

#include <absl/strings/str_cat.h>

#include "kernels/softmax.h"

namespace softmax::server {
namespace {

// A flag has a cache line of its own: the device's write must not evict a neighbour's.
constexpr std::size_t kFlagBytes = 128;
// The stream is asked for errors only every so many polls: a failed kernel never writes its flag.
constexpr std::uint32_t kPollsPerQuery = 4096;

absl::Status CudaError(const char* what, cudaError_t error) {
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")"));
}

thread_local int device_of_thread = -1;

cudaError_t SetDevice(int device) {
  const cudaError_t error = cudaSetDevice(device);
  device_of_thread = error == cudaSuccess ? device : -1;
  return error;
}

// For every launch: cudaSetDevice takes a system call each time, even for the device that is set.
cudaError_t UseDevice(int device) { return device_of_thread == device ? cudaSuccess : SetDevice(device); }

}  // namespace

void CudaHealth::Fail(const std::string& what) {
  MutexLock lock(mu_);
  if (what_.empty()) what_ = what;
  failed_.store(true);
}

absl::Status CudaHealth::status() const {
  MutexLock lock(mu_);
  return failed_.load() ? absl::InternalError(what_) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudaLane>> CudaLane::Create(const Options& options, CudaHealth& health) {
  std::unique_ptr<CudaLane> lane(new CudaLane(options, health));
  if (absl::Status status = lane->Initialize(); !status.ok()) return status;
  return lane;
}

absl::Status CudaLane::Initialize() {
  if (cudaError_t e = SetDevice(options_.device)) return CudaError("cudaSetDevice", e);
  if (cudaError_t e = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)) {
    return CudaError("cudaStreamCreateWithFlags", e);
  }
  if (cudaError_t e = cudaMalloc(reinterpret_cast<void**>(&workspace_), kernels::kSoftmaxWorkspaceBytes))
    return CudaError("cudaMalloc", e);
  if (cudaError_t e = cudaMemset(workspace_, 0, kernels::kSoftmaxWorkspaceBytes)) return CudaError("cudaMemset", e);
  const std::size_t slot_bytes = kFlagBytes + (options_.scratch_bytes + 127) / 128 * 128;
  void* block = nullptr;
  if (cudaError_t e =
          cudaHostAlloc(&block, slot_bytes * options_.max_in_flight, cudaHostAllocMapped | cudaHostAllocPortable)) {
    return CudaError("cudaHostAlloc", e);
  }
  host_block_ = static_cast<std::byte*>(block);
  for (std::uint32_t i = 0; i < options_.max_in_flight; ++i) {
    Slot slot;
    slot.flag = reinterpret_cast<volatile std::uint32_t*>(host_block_ + i * slot_bytes);
    *slot.flag = 0;
    slot.scratch = host_block_ + i * slot_bytes + kFlagBytes;
    slots_.push_back(slot);
  }
  return absl::OkStatus();
}

CudaLane::~CudaLane() {
  // After a failure these calls fail as well; the process is about to end.
  if (stream_ != nullptr) {
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamDestroy(stream_);
  }
  (void)cudaFree(workspace_);
  (void)cudaFreeHost(host_block_);
}

void CudaLane::FailBatch(Batch* batch, const char* what, cudaError_t error) {
  batch->status = CudaError(what, error);
  health_.Fail(std::string(batch->status.message()));
  failed_.push_back(batch);
}

void CudaLane::Launch(Batch* batch) {
  if (cudaError_t e = UseDevice(options_.device)) return FailBatch(batch, "cudaSetDevice", e);
  batch->lane_slot = next_slot_;
  Slot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % options_.max_in_flight;
  kernels::Completion completion;
  completion.flag = const_cast<std::uint32_t*>(slot.flag);
  completion.value = ++slot.value;
  completion.workspace = workspace_;
  const auto& segments = batch->segments();
  const cudaError_t error = kernels::LaunchSoftmaxBatch(batch->input_type(), batch->output_type(), segments.data(),
                                                        static_cast<std::int64_t>(segments.size()), slot.scratch,
                                                        options_.scratch_bytes, completion, stream_);
  if (error != cudaSuccess) return FailBatch(batch, "launching the softmax kernel", error);
  running_.push_back(batch);
}

bool CudaLane::Finished(const Batch& batch) {
  const Slot& slot = slots_[batch.lane_slot];
  if (*slot.flag != slot.value) return false;
  // What the device wrote before the flag is read after it.
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

Batch* CudaLane::Poll() {
  if (!failed_.empty()) {
    Batch* const batch = failed_.front();
    failed_.pop_front();
    return batch;
  }
  if (running_.empty()) return nullptr;
  Batch* const batch = running_.front();
  if (Finished(*batch)) {
    batch->status = absl::OkStatus();
    running_.pop_front();
    return batch;
  }
  if (++polls_ % kPollsPerQuery != 0) return nullptr;
  const cudaError_t error = cudaStreamQuery(stream_);
  if (error == cudaSuccess || error == cudaErrorNotReady) return nullptr;
  running_.pop_front();
  FailBatch(batch, "running the softmax kernel", error);
  return Poll();
}

}  // namespace softmax::server
