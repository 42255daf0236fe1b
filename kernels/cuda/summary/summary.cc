#include "kernels/cuda/summary/summary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cuda/check.h"
#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/core/scale.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/registry.h"
#include "kernels/softmax.h"

namespace softmax::kernels {
namespace {

using cuda::DeviceSummary;
using cuda::SummaryParams;

constexpr int kChunksPerTop = 5;

int Bytes(DataType type) { return static_cast<int>(SizeOf(type)); }
int ComputeBytes(DataType type) { return type == DataType::kFloat64 ? 8 : 4; }

bool IsEmpty(const SummarySegment& summary) {
  const Segment& s = summary.rows;
  const bool asks = summary.top_values != nullptr || summary.values_at != nullptr || summary.log_sum_exp != nullptr ||
                    summary.entropy != nullptr;
  return s.outer == 0 || s.cols == 0 || s.inner == 0 || !asks;
}

bool IsSmall(DataType type, const Segment& s) { return s.cols <= cuda::SmallColumns(Bytes(type)); }
bool InLanes(DataType type, const SummarySegment& s) {
  return s.rows.inner == 1 && IsSmall(type, s.rows) && s.top_k <= cuda::kSmallTopK;
}
std::int64_t ChunksOf(DataType type, const Segment& s) {
  return cuda::DivideUp(s.cols, cuda::ChunkColumns(Bytes(type)));
}
// Where many chunks hold some of the largest, those are looked for by the maxima of the chunks' lanes, as where the
// chunks are too many for shared memory. Not of the fewest chunks, beside which their tables would be large.
bool HasLanes(DataType type, const SummarySegment& s) {
  const std::int64_t chunks = ChunksOf(type, s.rows);
  return (chunks > 3 && chunks < kChunksPerTop * s.top_k) || (chunks > cuda::kFlatChunks && s.top_k > 0);
}
// Whether chunks of its rows are read first.
bool HasTables(DataType type, const SummarySegment& s) { return !IsSmall(type, s.rows); }

cudaError_t Check(DataType input_type, DataType output_type, const SummarySegment& summary) {
  const Segment& rows = summary.rows;
  if (rows.outer < 0 || rows.cols < 0 || rows.inner < 0 || rows.input_stride < 0) return cudaErrorInvalidValue;
  if (!std::isfinite(rows.scale) || !(rows.scale > 0)) return cudaErrorInvalidValue;
  if (rows.operation != Operation::kSoftmax && rows.operation != Operation::kLogSoftmax) return cudaErrorInvalidValue;
  if (summary.top_k < 0 || summary.top_k > kMaxTopK || summary.at < 0) return cudaErrorInvalidValue;
  if ((summary.top_values == nullptr) != (summary.top_k == 0) ||
      (summary.top_indices == nullptr) != (summary.top_k == 0)) {
    return cudaErrorInvalidValue;
  }
  if ((summary.values_at == nullptr) != (summary.at == 0) || (summary.indices == nullptr) != (summary.at == 0)) {
    return cudaErrorInvalidValue;
  }
  if ((summary.log_sum_exp == nullptr) != (summary.maximum == nullptr)) return cudaErrorInvalidValue;
  if (IsEmpty(summary)) return cudaSuccess;
  const auto is_aligned = [](const void* pointer, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
  };
  const std::size_t number = static_cast<std::size_t>(ComputeBytes(input_type));
  const bool aligned = is_aligned(rows.input, SizeOf(input_type)) && is_aligned(rows.lengths, 4) &&
                       is_aligned(summary.indices, 4) && is_aligned(summary.top_indices, 4) &&
                       is_aligned(summary.top_values, SizeOf(output_type)) &&
                       is_aligned(summary.values_at, SizeOf(output_type)) && is_aligned(summary.log_sum_exp, number) &&
                       is_aligned(summary.maximum, number) && is_aligned(summary.entropy, number);
  constexpr std::int64_t kMaxCols = std::int64_t{1} << 31;  // an index has 32 bits
  return rows.input == nullptr || !aligned || rows.cols > kMaxCols ? cudaErrorInvalidValue : cudaSuccess;
}

template <typename C>
void SetScale(DeviceSummary* d) {
  const auto parts = cuda::ScaleParts<C>::Of(d->rows.scale);
  static_assert(sizeof(parts) <= sizeof(d->scale_parts));
  std::memcpy(d->scale_parts, &parts, sizeof(parts));
}

DeviceSummary ToDevice(DataType type, const SummarySegment& summary) {
  DeviceSummary d = {};
  static_cast<SummarySegment&>(d) = summary;
  const Segment& s = summary.rows;
  d.row_count = s.outer * s.inner;
  type == DataType::kFloat64 ? SetScale<double>(&d) : SetScale<float>(&d);
  d.lanes = static_cast<std::uint8_t>(cuda::RowLanes(s.cols, Bytes(type)));
  if (HasTables(type, summary)) {
    d.chunks = cuda::ExactDivisor(static_cast<std::int32_t>(ChunksOf(type, s)));
    d.has_lanes = HasLanes(type, summary);
  }
  return d;
}

// How the segments of a launch lie, those of small rows or all others.
struct Layout {
  std::int64_t segments = 0;
  std::int64_t items = 0;
  std::int64_t reads = 0;
  std::int64_t table_bytes = 0;
  std::int32_t top_k = 0;  // the largest
};

// Calls use(device segment) with each that is not empty.
template <typename F>
Layout LayOut(DataType type, const SummarySegment* segments, std::int64_t count, bool in_lanes, F use) {
  Layout layout;
  for (std::int64_t i = 0; i < count; ++i) {
    if (IsEmpty(segments[i]) || InLanes(type, segments[i]) != in_lanes) continue;
    DeviceSummary d = ToDevice(type, segments[i]);
    d.first_item = layout.items;
    d.first_read = layout.reads;
    d.tables = layout.table_bytes;
    ++layout.segments;
    layout.top_k = std::max(layout.top_k, d.top_k);
    layout.items += in_lanes ? cuda::DivideUp(d.row_count, cuda::kBlockThreads / d.lanes) : d.row_count;
    if (HasTables(type, segments[i])) {
      const std::int64_t chunks = d.chunks.value();
      layout.reads += cuda::DivideUp(d.row_count * chunks, cuda::kBlockWarps);
      layout.table_bytes += d.row_count * cuda::SummaryTableBytes(chunks, ComputeBytes(type), d.has_lanes);
    }
    use(d);
  }
  return layout;
}

}  // namespace

std::size_t SummaryWorkspaceBytes(DataType input_type, const SummarySegment* segments, std::int64_t count) {
  const auto ignore = [](const DeviceSummary&) {};
  return static_cast<std::size_t>(LayOut(input_type, segments, count, false, ignore).table_bytes);
}

// Tables are largest for fp64 rows with the maxima of all lanes. No row's has a fifth of its bytes.
std::size_t SummaryWorkspaceBytes(std::uint64_t input_bytes) { return input_bytes / 5 / 16 * 16 + 16; }

std::size_t SummaryScratchBytes(std::int64_t count) {
  return count <= cuda::kInlineSummaries ? 0 : static_cast<std::size_t>(count) * sizeof(DeviceSummary);
}

cudaError_t LaunchSummaries(DataType input_type, DataType output_type, const SummarySegment* segments,
                            std::int64_t count, void* scratch, std::size_t scratch_bytes, void* workspace,
                            std::size_t workspace_bytes, Completion completion, cudaStream_t stream) {
  if (!cuda::IsSupported(input_type) || !cuda::IsSupported(output_type) || count < 0 || count > UINT32_MAX ||
      (segments == nullptr && count > 0) || (completion.flag != nullptr && completion.workspace == nullptr)) {
    return cudaErrorInvalidValue;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (const cudaError_t error = Check(input_type, output_type, segments[i]); error != cudaSuccess) return error;
  }
  const auto ignore = [](const DeviceSummary&) {};
  const Layout small = LayOut(input_type, segments, count, true, ignore);
  const Layout others = LayOut(input_type, segments, count, false, ignore);
  if (small.segments + others.segments == 0) {  // the flag alone
    return LaunchSoftmaxBatch(input_type, output_type, nullptr, 0, nullptr, 0, completion, stream);
  }
  constexpr std::int64_t kMostNumbers = INT32_MAX;  // rows and chunks of a segment are counted in 32 bits
  const bool has_scratch = std::max(small.segments, others.segments) > cuda::kInlineSummaries;
  if (others.items > kMostNumbers || others.reads > kMostNumbers / cuda::kBlockWarps ||
      reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0 || (others.table_bytes > 0 && workspace == nullptr) ||
      workspace_bytes < static_cast<std::size_t>(others.table_bytes) ||
      (has_scratch && (scratch == nullptr || scratch_bytes < SummaryScratchBytes(count) ||
                       reinterpret_cast<std::uintptr_t>(scratch) % alignof(DeviceSummary) != 0))) {
    return cudaErrorInvalidValue;
  }
  cuda::Device device;
  if (const cudaError_t error = cuda::CurrentDevice(&device); error != cudaSuccess) return error;
  SummaryParams params;
  params.output_type = output_type;
  params.tables = static_cast<unsigned char*>(workspace);
  auto* rest = static_cast<DeviceSummary*>(scratch);
  const auto fill = [&](const Layout& layout, bool in_lanes) {
    params.table = layout.segments > cuda::kInlineSummaries ? rest : nullptr;
    params.segment_count = static_cast<std::uint32_t>(layout.segments);
    DeviceSummary* next = params.table != nullptr ? rest : params.segments;
    LayOut(input_type, segments, count, in_lanes, [&next](const DeviceSummary& d) { *next++ = d; });
    if (params.table != nullptr) rest = next;
  };
  // `most`: blocks, of launches whose segments are in their parameters.
  const auto launch = [&](cuda::SummaryStep step, std::int64_t items, std::int64_t most, int threads, bool is_last) {
    params.items = items;
    params.completion = is_last ? completion : Completion{};
    if (params.table != nullptr) most = cuda::kMaxGridBlocks;
    cuda::Grid grid{std::min(items, most), threads};
    params.items_per_block = cuda::DivideUp(items, grid.blocks);
    grid.dependent = step == cuda::kSummaryRows && others.reads > 0 && device.clusters;
    void* args[] = {&params};
    return cuda::Launch(cuda::KernelOf(input_type, cuda::Room::kSummary, step, 0), grid, args, stream);
  };
  if (small.segments > 0) {
    fill(small, true);
    const bool is_last = others.segments == 0;
    const std::int64_t most = std::int64_t{device.multiprocessors} * cuda::kSmallSummaryBlocks;
    const cudaError_t error = launch(cuda::kSummarySmall, small.items, most, cuda::kBlockThreads, is_last);
    if (error != cudaSuccess || is_last) return error;
  }
  fill(others, false);
  if (others.reads > 0) {
    const cudaError_t error = launch(cuda::kSummaryRead, others.reads, INT32_MAX, cuda::kBlockThreads, false);
    if (error != cudaSuccess) return error;
  }
  const bool is_large = others.top_k >= cuda::kLargeTopK;
  const bool is_few = others.items <= 2 * device.multiprocessors;
  return launch(cuda::kSummaryRows, others.items, INT32_MAX,
                is_large ? cuda::LargeRowThreads(Bytes(input_type))
                : is_few ? cuda::kFewRowThreads
                         : cuda::kBlockThreads,
                true);
}

}  // namespace softmax::kernels
