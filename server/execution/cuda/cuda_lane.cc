#include "server/execution/cuda/cuda_lane.h"

#include <absl/strings/str_cat.h>

#include <atomic>

#include "server/execution/cuda/cuda_call.h"
#include "server/execution/host_memory.h"

namespace softmax::server {
namespace {

// A flag has a cache line of its own: the device's write must not evict a neighbour's.
constexpr std::size_t kFlagBytes = 128;
// Where parts of the device's memory begin.
constexpr std::size_t kBoundary = 256;
// The stream is asked for errors only once in this number of polls: a failed kernel never writes its flag.
constexpr std::uint32_t kPollsPerQuery = 4096;
// An aligned address that no device has.
constexpr std::uintptr_t kNowhere = 4096;

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

const void*& InputOf(kernels::Segment& segment) { return segment.input; }
const void*& InputOf(kernels::SummarySegment& segment) { return segment.rows.input; }

// What a launch is given of a batch: segments of gathered inputs point into `staging`, which is laid out as the span
// is; for a test that wants the launch broken, all of them where there is nothing.
template <typename Segment>
const std::vector<Segment>& SegmentsToRun(const Batch& batch, const std::vector<Segment>& segments,
                                          const std::vector<std::uint32_t>& gathered, const std::byte* staging,
                                          bool is_broken, std::vector<Segment>* patched) {
  if (gathered.empty() && !is_broken) return segments;
  *patched = segments;
  for (const std::uint32_t index : gathered) {
    const void*& input = InputOf((*patched)[index]);
    input = staging + (static_cast<const std::byte*>(input) - batch.span().address());
  }
  for (Segment& segment : *patched) {
    if (is_broken) InputOf(segment) = reinterpret_cast<const void*>(kNowhere);
  }
  return *patched;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaLane>> CudaLane::Create(const Options& options) {
  std::unique_ptr<CudaLane> lane(new CudaLane(options));
  if (absl::Status status = lane->Initialize(); !status.ok()) return status;
  return lane;
}

absl::Status CudaLane::Initialize() {
  FaultPlan* const faults = options_.faults;
  if (cudaError_t e = MakeCall(faults, "cudaSetDevice", [this] { return SetDevice(options_.device); })) {
    return CudaError("cudaSetDevice", e);
  }
  if (cudaError_t e = MakeCall(faults, "cudaStreamCreateWithFlags",
                               [this] { return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); })) {
    return CudaError("cudaStreamCreateWithFlags", e);
  }
  if (absl::Status status = AllocateMemory(); !status.ok()) return status;
  if (cudaError_t e = MakeCall(faults, "cudaMemset",
                               [this] { return cudaMemset(workspace_, 0, kernels::kSoftmaxWorkspaceBytes); })) {
    return CudaError("cudaMemset", e);
  }
  return absl::OkStatus();
}

absl::Status CudaLane::AllocateDeviceMemory() {
  // Each part begins on a boundary, or rows in it would not.
  const auto aligned = [](std::size_t bytes) { return (bytes + kBoundary - 1) / kBoundary * kBoundary; };
  staging_stride_ = aligned(options_.staging_bytes);
  const std::size_t staging = staging_stride_ * options_.max_in_flight;
  const std::size_t workspaces = aligned(kernels::kSoftmaxWorkspaceBytes) + aligned(options_.summary_bytes);
  const std::size_t bytes = workspaces + staging;
  if (cudaError_t e = MakeAllocation(options_.faults, "cudaMalloc",
                                     [&] { return cudaMalloc(reinterpret_cast<void**>(&workspace_), bytes); })) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "threads: cannot have ", bytes, " bytes of memory of device ", options_.device, ": ", cudaGetErrorString(e),
        "; nvidia-smi names who holds it, receive-bytes=0 does with ", bytes - staging));
  }
  auto* const block = reinterpret_cast<std::byte*>(workspace_);
  summary_workspace_ = block + aligned(kernels::kSoftmaxWorkspaceBytes);
  if (staging > 0) staging_ = block + workspaces;
  return absl::OkStatus();
}

absl::Status CudaLane::AllocateMemory() {
  FaultPlan* const faults = options_.faults;
  if (absl::Status status = AllocateDeviceMemory(); !status.ok()) return status;
  const std::size_t scratch_bytes = (options_.scratch_bytes + 127) / 128 * 128;
  const std::size_t slot_bytes = kFlagBytes + scratch_bytes + (options_.summary_scratch_bytes + 127) / 128 * 128;
  const std::size_t bytes = slot_bytes * options_.max_in_flight;
  void* block = nullptr;
  if (cudaError_t e = MakeAllocation(faults, "cudaHostAlloc", [&] {
        return cudaHostAlloc(&block, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
      })) {
    return MemoryShortage("max-in-flight-batches", "cannot pin", bytes, cudaGetErrorString(e));
  }
  host_block_ = static_cast<std::byte*>(block);
  for (std::uint32_t i = 0; i < options_.max_in_flight; ++i) {
    Slot slot;
    slot.flag = reinterpret_cast<volatile std::uint32_t*>(host_block_ + i * slot_bytes);
    *slot.flag = 0;
    slot.scratch = host_block_ + i * slot_bytes + kFlagBytes;
    slot.summary_scratch = slot.scratch + scratch_bytes;
    if (staging_ != nullptr) slot.staging = staging_ + i * staging_stride_;
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
  // The thread remembers its last error and would report it for another device's launch.
  (void)cudaGetLastError();
  failed_.push_back(batch);
}

cudaError_t CudaLane::LaunchSummaries(const Batch& batch, const Slot& slot, const kernels::Completion& completion) {
  const bool is_broken = batch.segments().empty() && IsBroken();
  const std::vector<kernels::SummarySegment>& segments =
      SegmentsToRun(batch, batch.summaries(), batch.gathered_summaries(), slot.staging, is_broken, &patched_summaries_);
  return kernels::LaunchSummaries(batch.input_type(), batch.output_type(), segments.data(),
                                  static_cast<std::int64_t>(segments.size()), slot.summary_scratch,
                                  options_.summary_scratch_bytes, summary_workspace_, options_.summary_bytes,
                                  completion, stream_);
}

// Gathered inputs are in the device's memory, and so are regions of it. If an earlier batch is still running, this
// batch reads the host's memory while the earlier one writes to it, and the launch is planned for a shared link.
kernels::Placement CudaLane::PlacementOf(const Batch& batch) const {
  if (!batch.pieces().empty() || batch.device() != Region::kHost) return kernels::Placement::kDevice;
  return running_.empty() ? kernels::Placement::kHost : kernels::Placement::kSharedHost;
}

// Whether a test has the next kernel read where there is nothing: the error that no CUDA context survives.
bool CudaLane::IsBroken() const { return options_.faults != nullptr && options_.faults->NextCall("kernel") != 0; }

cudaError_t CudaLane::LaunchKernel(const Batch& batch, const Slot& slot, const kernels::Completion& completion) {
  const std::vector<kernels::GatherPiece>& pieces = batch.pieces();
  const cudaError_t gathered =
      kernels::LaunchGather(pieces.data(), static_cast<std::int64_t>(pieces.size()), slot.staging, stream_);
  if (gathered != cudaSuccess) return gathered;
  if (!batch.summaries().empty()) {
    // Before the whole answers, which may be in their inputs' place. The launch that comes last tells of both.
    const bool is_last = batch.segments().empty();
    const cudaError_t error = LaunchSummaries(batch, slot, is_last ? completion : kernels::Completion{});
    if (is_last || error != cudaSuccess) return error;
  }
  const std::vector<kernels::Segment>& segments =
      SegmentsToRun(batch, batch.segments(), batch.gathered_segments(), slot.staging, IsBroken(), &patched_);
  return kernels::LaunchSoftmaxBatch(batch.input_type(), batch.output_type(), segments.data(),
                                     static_cast<std::int64_t>(segments.size()), slot.scratch, options_.scratch_bytes,
                                     completion, stream_, PlacementOf(batch));
}

void CudaLane::Launch(Batch* batch) {
  FaultPlan* const faults = options_.faults;
  if (cudaError_t e = MakeCall(faults, "cudaSetDevice", [this] { return UseDevice(options_.device); })) {
    return FailBatch(batch, "cudaSetDevice", e);
  }
  batch->lane_slot = next_slot_;
  Slot& slot = slots_[next_slot_];
  next_slot_ = (next_slot_ + 1) % options_.max_in_flight;
  kernels::Completion completion;
  completion.flag = const_cast<std::uint32_t*>(slot.flag);
  completion.value = ++slot.value;
  completion.workspace = workspace_;
  const cudaError_t error =
      MakeCall(faults, "cudaLaunchKernel", [&] { return LaunchKernel(*batch, slot, completion); });
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
  if (Batch* const batch = TakeFront(failed_)) return batch;
  if (running_.empty()) return nullptr;
  Batch* const batch = running_.front();
  if (Finished(*batch)) {
    batch->status = absl::OkStatus();
    running_.pop_front();
    return batch;
  }
  if (++polls_ % kPollsPerQuery != 0) return nullptr;
  const cudaError_t error = MakeCall(options_.faults, "cudaStreamQuery", [this] { return cudaStreamQuery(stream_); });
  if (error == cudaSuccess || error == cudaErrorNotReady) return nullptr;
  running_.pop_front();
  FailBatch(batch, "running the softmax kernel", error);
  return Poll();
}

}  // namespace softmax::server
