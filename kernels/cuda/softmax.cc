#include "kernels/softmax.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/general/plan.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/plan/batch.h"
#include "kernels/cuda/plan/columns.h"
#include "kernels/cuda/plan/rows.h"
#include "kernels/cuda/registry.h"

namespace softmax::kernels {
namespace {

constexpr std::int64_t kManyRows = std::int64_t{1} << 40;

cudaError_t LaunchFlag(const Completion& completion, cudaStream_t stream) {
  if (completion.flag == nullptr) return cudaSuccess;
  std::uint32_t* flag = completion.flag;
  std::uint32_t value = completion.value;
  void* args[] = {&flag, &value};
  return cuda::Launch(cuda::FlagKernelAddress(), cuda::Grid{.blocks = 1, .threads = 1}, args, stream);
}

// Of a kernel whose one argument is its parameters.
cudaError_t Launch(const void* kernel, const cuda::Grid& grid, void* params, cudaStream_t stream) {
  void* args[] = {params};
  return cuda::Launch(kernel, grid, args, stream);
}

// The segments that are not empty: how many, and the last of them.
struct Used {
  std::int64_t count = 0;
  const Segment* last = nullptr;
  bool has_inner = false;  // one of them is over another axis
};

Used UsedOf(const Segment* segments, std::int64_t count) {
  Used used;
  for (std::int64_t i = 0; i < count; ++i) {
    if (cuda::IsEmpty(segments[i])) continue;
    ++used.count;
    used.last = &segments[i];
    used.has_inner = used.has_inner || segments[i].inner != 1;
  }
  return used;
}

// Bytes from which on it matters how many rows are on their way over the link: beside other launches, and alone.
constexpr std::int64_t kMuchBytes = 256 << 10;
constexpr std::int64_t kMuchAloneBytes = 4 << 20;

// Whether the segments have so many bytes.
bool HasBytes(DataType type, const Segment* segments, std::int64_t count, std::int64_t bytes) {
  const auto much = bytes / static_cast<std::int64_t>(SizeOf(type));
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < count && elements < much; ++i) {
    const Segment& s = segments[i];
    if (!cuda::IsEmpty(s)) elements += std::min(s.outer, much) * std::min(s.cols, much);
  }
  return elements >= much;
}

// Runs one segment with a kernel made for its shape, if there is one.
bool LaunchOne(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
               const cuda::Device& device, Placement placement, cudaStream_t stream, cudaError_t* error) {
  if (segment.inner > 1) {
    cuda::ColumnPlan plan = cuda::PlanColumns(type, output_type, segment, completion, device);
    if (!plan.possible) {
      *error = cudaErrorInvalidValue;
      return true;
    }
    // Few columns taken element by element are 1 to 2 % slower with it, and others up to 1 % faster.
    const bool dependent = device.clusters && (plan.few < 0 || plan.wide);
    if (dependent && placement == Placement::kDevice) cuda::PlanAhead(type, &plan);
    const cuda::Grid grid{plan.blocks, plan.threads, plan.dynamic_bytes, plan.params.cluster_blocks, false, dependent};
    *error = Launch(cuda::KernelOf(type, plan.room(), plan.size(), plan.form()), grid, &plan.params, stream);
    return true;
  }
  cuda::MatrixPlan plan = cuda::PlanMatrix(type, output_type, segment, completion, device);
  if (plan.room == cuda::Room::kNone) return false;
  if (placement == Placement::kDevice) cuda::PlanAhead(device, &plan);
  const cuda::Grid grid{plan.blocks,           plan.threads,
                        plan.dynamic_bytes,    plan.params.cluster_blocks,
                        plan.is_cooperative(), device.clusters && plan.room != cuda::Room::kWide};
  *error = Launch(cuda::KernelOf(type, plan.room, plan.size, plan.form()), grid, &plan.params, stream);
  return true;
}

// Runs several segments with the kernel for batches, if it takes them all.
bool LaunchSorted(DataType type, DataType output_type, const Segment* segments, std::int64_t count, void* scratch,
                  const Completion& completion, const cuda::Device& device, Placement placement, cudaStream_t stream,
                  cudaError_t* error) {
  cuda::BatchPlan plan;
  cuda::PlanBatch(type, output_type, segments, count, scratch, completion, device, placement, &plan);
  if (!plan.possible) return false;
  const cuda::Grid grid{plan.blocks,
                        cuda::kBatchThreads,
                        plan.dynamic_bytes,
                        plan.params.cluster_units > 0 ? plan.params.cluster_blocks : 1,
                        false,
                        device.clusters};
  const void* const kernel =
      cuda::KernelOf(type, cuda::Room::kBatch, 0, cuda::FormOf(plan.skew, false, output_type != type));
  *error = Launch(kernel, grid, &plan.params, stream);
  return true;
}

// Segments of which some are over another axis: the others as one batch, then each of these, as no kernel takes
// several. The last launch says that all is done.
cudaError_t LaunchApart(DataType type, DataType output_type, const Segment* segments, std::int64_t count, void* scratch,
                        std::size_t scratch_bytes, const Completion& completion, cudaStream_t stream,
                        Placement placement) {
  std::vector<Segment> rows;
  std::vector<const Segment*> others;
  for (const Segment* s = segments; s < segments + count; ++s) {
    if (s->inner == 1) rows.push_back(*s);
    if (s->inner > 1 && !cuda::IsEmpty(*s)) others.push_back(s);
  }
  const Completion none{nullptr, 0, completion.workspace};
  cudaError_t error = LaunchSoftmaxBatch(type, output_type, rows.data(), static_cast<std::int64_t>(rows.size()),
                                         scratch, scratch_bytes, none, stream, placement);
  for (const Segment* s : others) {
    if (error != cudaSuccess) break;
    error = LaunchSoftmaxBatch(type, output_type, s, 1, nullptr, 0, s == others.back() ? completion : none, stream,
                               placement);
  }
  return error;
}

// Dynamic shared memory that a room's kernels may ask for.
int SharedBytesOf(cuda::Room room, const cuda::Device& device) {
  switch (room) {
    case cuda::Room::kSplit:
    case cuda::Room::kColumnFew:
    case cuda::Room::kSummary:
      return 0;
    case cuda::Room::kColumns:
    case cuda::Room::kGeneral:
      return device.shared_bytes;
    case cuda::Room::kBatch:
      return cuda::BatchUnitChunks(device) * cuda::kPieceVectors * cuda::kVectorBytes;
    default:
      return device.shared_bytes - cuda::kMatrixTableBytes;
  }
}

cudaError_t Prepare(const cuda::Kernel& kernel, const cuda::Device& device) {
  // Asking for the attributes loads the code, which would otherwise happen at the first launch.
  cudaFuncAttributes attributes = {};
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel.address);
  if (error != cudaSuccess || kernel.room == cuda::Room::kSummary) return error;
  error = cudaFuncSetAttribute(kernel.address, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SharedBytesOf(kernel.room, device));
  if (error != cudaSuccess || !device.clusters) return error;
  return cudaFuncSetAttribute(kernel.address, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

}  // namespace

std::size_t SoftmaxBatchScratchBytes(const Segment* segments, std::int64_t count, Placement placement) {
  std::int64_t used = 0;
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (cuda::IsEmpty(segments[i])) continue;
    ++used;
    rows = std::min(rows + std::min(segments[i].outer, kManyRows), kManyRows);
  }
  if (used < (placement == Placement::kDevice ? 2 : 1)) return 0;
  const std::size_t sorted = cuda::BatchScratchBytes(used, rows);
  if (used <= cuda::kInlineSegments) return sorted;
  return std::max(sorted, static_cast<std::size_t>(used) * sizeof(cuda::GeneralSegment));
}

cudaError_t LaunchSoftmaxBatch(DataType input_type, DataType output_type, const Segment* segments, std::int64_t count,
                               void* scratch, std::size_t scratch_bytes, Completion completion, cudaStream_t stream,
                               Placement placement) {
  if (!cuda::IsSupported(input_type) || !cuda::IsSupported(output_type) || count < 0 || count > UINT32_MAX ||
      (segments == nullptr && count > 0)) {
    return cudaErrorInvalidValue;
  }
  if (completion.flag != nullptr && completion.workspace == nullptr) return cudaErrorInvalidValue;
  for (std::int64_t i = 0; i < count; ++i) {
    const cudaError_t error = cuda::CheckSegment(input_type, output_type, segments[i]);
    if (error != cudaSuccess) return error;
  }
  const std::size_t needed = SoftmaxBatchScratchBytes(segments, count);
  if (needed > 0 && (scratch == nullptr || scratch_bytes < needed ||
                     reinterpret_cast<std::uintptr_t>(scratch) % alignof(cuda::GeneralSegment) != 0)) {
    return cudaErrorInvalidValue;
  }
  cuda::Device device;
  if (const cudaError_t error = cuda::CurrentDevice(&device); error != cudaSuccess) return error;
  const Used used = UsedOf(segments, count);
  if (used.count == 0) return LaunchFlag(completion, stream);
  cudaError_t error = cudaSuccess;
  if (used.count > 1 && used.has_inner) {
    return LaunchApart(input_type, output_type, segments, count, scratch, scratch_bytes, completion, stream, placement);
  }
  const bool shared = placement == Placement::kSharedHost;
  const bool mixed = input_type != output_type;
  const auto has = [&](std::int64_t bytes) { return HasBytes(input_type, segments, count, bytes); };
  const bool is_alone = used.count == 1 && placement == Placement::kHost;
  const bool few_blocks = (shared && has(kMuchBytes)) || (is_alone && has(kMuchAloneBytes));
  // One segment of mixed types that no kernel for a matrix takes goes as a batch, too.
  const auto launch_sorted = [&] {
    const Placement used_placement = few_blocks ? Placement::kSharedHost : Placement::kDevice;
    if (used.count == 1 && scratch_bytes < cuda::BatchScratchBytes(1, used.last->outer)) scratch = nullptr;
    return LaunchSorted(input_type, output_type, segments, count, scratch, completion, device, used_placement, stream,
                        &error);
  };
  if ((used.count > 1 || few_blocks) && launch_sorted()) return error;
  if (used.count == 1) {
    if (LaunchOne(input_type, output_type, *used.last, completion, device, placement, stream, &error)) return error;
    if (mixed && !few_blocks && launch_sorted()) return error;
  }
  cuda::GeneralPlan plan;
  cuda::PlanGeneral(input_type, output_type, segments, count, scratch, completion, device, &plan);
  const cuda::Grid grid{plan.blocks, cuda::kBlockThreads, plan.dynamic_bytes, plan.params.cluster_blocks};
  return Launch(cuda::KernelOf(input_type, cuda::Room::kGeneral, 0, cuda::FormOf(false, false, mixed)), grid,
                &plan.params, stream);
}

cudaError_t LaunchSoftmax(DataType input_type, DataType output_type, const Segment& segment, cudaStream_t stream,
                          std::uint32_t* workspace, Placement placement) {
  return LaunchSoftmaxBatch(input_type, output_type, &segment, 1, nullptr, 0, Completion{nullptr, 0, workspace}, stream,
                            placement);
}

cudaError_t PrepareSoftmaxKernels() {
  cuda::Device device;
  if (const cudaError_t error = cuda::CurrentDevice(&device); error != cudaSuccess) return error;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64}) {
    for (const cuda::Kernel& kernel : cuda::KernelsOf(type)) {
      if (const cudaError_t error = Prepare(kernel, device); error != cudaSuccess) return error;
    }
  }
  if (const cudaError_t error = cuda::LoadGatherKernels(); error != cudaSuccess) return error;
  cudaFuncAttributes attributes = {};
  return cudaFuncGetAttributes(&attributes, cuda::FlagKernelAddress());
}

}  // namespace softmax::kernels
