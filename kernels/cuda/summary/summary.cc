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
constexpr std::int64_t kMaxBlocks = cuda::kMaxGridBlocks;  // of launches with a table

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
// Where many chunks hold some of the largest, those are looked for by the maxima of the chunks' lanes. Not of the
// fewest chunks, beside which their tables would be large.
bool HasLanes(DataType type, const SummarySegment& s) {
  const std::int64_t chunks = ChunksOf(type, s.rows);
  return chunks > 3 && chunks < kChunksPerTop * s.top_k;
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

DeviceSummary ToDevice(DataType type, const SummarySegment& summary) {
  const Segment& s = summary.rows;
  DeviceSummary d = {};
  d.input = s.input;
  d.lengths = s.lengths;
  d.indices = summary.indices;
  d.top_values = summary.top_values;
  d.top_indices = summary.top_indices;
  d.values_at = summary.values_at;
  d.log_sum_exp = summary.log_sum_exp;
  d.maximum = summary.maximum;
  d.entropy = summary.entropy;
  d.rows = s.outer * s.inner;
  d.cols = s.cols;
  d.inner = s.inner;
  d.input_stride = s.input_stride;
  d.at = summary.at;
  d.scale = s.scale;
  static_assert(sizeof(cuda::ScaleParts<float>) <= sizeof(d.scale_parts));
  static_assert(sizeof(cuda::ScaleParts<double>) <= sizeof(d.scale_parts));
  if (type == DataType::kFloat64) {
    const auto parts = cuda::ScaleParts<double>::Of(s.scale);
    std::memcpy(d.scale_parts, &parts, sizeof(parts));
  } else {
    const auto parts = cuda::ScaleParts<float>::Of(s.scale);
    std::memcpy(d.scale_parts, &parts, sizeof(parts));
  }
  d.top_k = summary.top_k;
  d.lanes = static_cast<std::uint32_t>(cuda::RowLanes(s.cols, Bytes(type)));
  d.log = s.operation == Operation::kLogSoftmax ? 1 : 0;
  const bool rows_aligned = s.outer == 1 || s.input_stride * Bytes(type) % cuda::kVectorBytes == 0;
  d.wide = rows_aligned && reinterpret_cast<std::uintptr_t>(s.input) % cuda::kVectorBytes == 0 ? 1 : 0;
  if (HasTables(type, summary)) {
    d.chunks = cuda::ExactDivisor(static_cast<std::int32_t>(ChunksOf(type, s)));
    d.has_lanes = HasLanes(type, summary) ? 1 : 0;
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
    layout.items += in_lanes ? cuda::DivideUp(d.rows, cuda::kBlockThreads / d.lanes) : d.rows;
    if (HasTables(type, segments[i])) {
      const std::int64_t chunks = d.chunks.value();
      layout.reads += cuda::DivideUp(d.rows * chunks, cuda::kBlockWarps);
      layout.table_bytes += d.rows * cuda::SummaryTableBytes(chunks, ComputeBytes(type), d.has_lanes != 0);
    }
    use(d);
  }
  return layout;
}

// The segments of a launch, in its parameters or else in `scratch`, which is moved on behind them.
struct Table {
  DeviceSummary* segments;
  std::uint32_t count;
  bool is_inline;
};
template <typename T>
T* Take(unsigned char** scratch, std::int64_t count) {
  auto* const taken = reinterpret_cast<T*>(*scratch);
  *scratch += static_cast<std::size_t>(count) * sizeof(T);
  return taken;
}

// Says which items the blocks of a launch take; `first_of` tells a segment's first one. Returns the number of blocks.
std::int64_t SetItems(const Table& table, std::int64_t items, std::int64_t DeviceSummary::*first_of,
                      unsigned char** scratch, SummaryParams* params) {
  params->items = items;
  params->items_per_block = 1;
  params->segment_count = table.count;
  params->table = nullptr;
  params->block_first = nullptr;
  if (table.is_inline) return std::min<std::int64_t>(items, INT32_MAX);
  const std::int64_t blocks = std::min(items, kMaxBlocks);
  params->items_per_block = cuda::DivideUp(items, blocks);
  auto* const first = Take<std::uint32_t>(scratch, kMaxBlocks);
  std::uint32_t index = 0;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t item = block * params->items_per_block;
    while (index + 1 < table.count && table.segments[index + 1].*first_of <= item) ++index;
    first[block] = index;
  }
  params->table = table.segments;
  params->block_first = first;
  return blocks;
}

}  // namespace

std::size_t SummaryWorkspaceBytes(DataType input_type, const SummarySegment* segments, std::int64_t count) {
  const auto ignore = [](const DeviceSummary&) {};
  return static_cast<std::size_t>(LayOut(input_type, segments, count, false, ignore).table_bytes);
}

// Tables are largest for fp64 rows with the maxima of all lanes. No row's has a fifth of its bytes.
std::size_t SummaryWorkspaceBytes(std::uint64_t input_bytes) { return input_bytes / 5 / 16 * 16 + 16; }

std::size_t SummaryScratchBytes(std::int64_t count) {
  if (count <= cuda::kInlineSummaries) return 0;
  return static_cast<std::size_t>(count) * sizeof(DeviceSummary) + 3 * kMaxBlocks * sizeof(std::uint32_t);
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
  params.completion = {};
  void* args[] = {&params};
  auto* rest = static_cast<unsigned char*>(scratch);
  const auto fill = [&](const Layout& layout, bool in_lanes) {
    const bool is_inline = layout.segments <= cuda::kInlineSummaries;
    DeviceSummary* const table = is_inline ? params.segments : Take<DeviceSummary>(&rest, layout.segments);
    DeviceSummary* next = table;
    LayOut(input_type, segments, count, in_lanes, [&next](const DeviceSummary& d) { *next++ = d; });
    return Table{table, static_cast<std::uint32_t>(layout.segments), is_inline};
  };
  const auto kernel = [&](cuda::SummaryStep step) { return cuda::KernelOf(input_type, cuda::Room::kSummary, step, 0); };
  if (small.segments > 0) {
    if (others.segments == 0) params.completion = completion;  // the flag is the last launch's
    const std::int64_t blocks = SetItems(fill(small, true), small.items, &DeviceSummary::first_item, &rest, &params);
    const std::int64_t most = std::int64_t{device.multiprocessors} * cuda::kSmallSummaryBlocks;
    const cuda::Grid grid{std::min(blocks, params.table == nullptr ? most : kMaxBlocks), cuda::kBlockThreads};
    const cudaError_t error = cuda::Launch(kernel(cuda::kSummarySmall), grid, args, stream);
    if (error != cudaSuccess || others.segments == 0) return error;
  }
  const Table table = fill(others, false);
  if (others.reads > 0) {
    const std::int64_t blocks = SetItems(table, others.reads, &DeviceSummary::first_read, &rest, &params);
    const cudaError_t error =
        cuda::Launch(kernel(cuda::kSummaryRead), cuda::Grid{blocks, cuda::kBlockThreads}, args, stream);
    if (error != cudaSuccess) return error;
  }
  params.completion = completion;
  const bool is_large = others.top_k >= cuda::kLargeTopK;
  const bool is_few = others.items <= 2 * device.multiprocessors;
  cuda::Grid grid{SetItems(table, others.items, &DeviceSummary::first_item, &rest, &params),
                  is_large ? cuda::LargeRowThreads(Bytes(input_type))
                  : is_few ? cuda::kFewRowThreads
                           : cuda::kBlockThreads};
  grid.dependent = others.reads > 0 && device.clusters;
  return cuda::Launch(kernel(cuda::kSummaryRows), grid, args, stream);
}

}  // namespace softmax::kernels
