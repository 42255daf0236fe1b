#include "kernels/cuda/summary/summary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cuda/check.h"
#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/core/scale.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/softmax.h"

namespace softmax::kernels {
namespace {

using cuda::DeviceSummary;
using cuda::SummaryParams;

constexpr int kMinPartChunks = cuda::kBlockWarps;
constexpr int kMaxPartChunks = 4 * cuda::kBlockWarps;
// So few rows are run in parts even if a block could take each.
constexpr std::int64_t kFewRows = 1024;
constexpr std::int64_t kMaxBlocks = cuda::kMaxGridBlocks;

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
bool HasLanes(DataType type, const SummarySegment& s) {
  return s.top_k > ChunksOf(type, s.rows) && s.rows.cols > kMaxTopK;
}
std::int64_t TableBytes(DataType type, const SummarySegment& s) {
  if (IsSmall(type, s.rows)) return 0;
  return cuda::SummaryTableBytes(ChunksOf(type, s.rows), ComputeBytes(type), HasLanes(type, s));
}

std::int64_t GridBlocks(const cuda::Device& device) {
  return std::min(std::int64_t{device.multiprocessors} * cuda::kSummaryBlocks, kMaxBlocks);
}

// How the rows of a launch are cut, and where their tables are: first the blocks' own, for rows of one part, then those
// of the rows of several.
struct Plan {
  std::int64_t segments = 0;
  int part_chunks = kMaxPartChunks;
  std::int64_t block_table_bytes = 0;
  bool is_few = false;
};

Plan MakePlan(DataType type, const SummarySegment* segments, std::int64_t count, std::int64_t grid_blocks) {
  Plan plan;
  std::int64_t rows = 0;  // that are not small
  std::int64_t chunks = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const SummarySegment& s = segments[i];
    if (IsEmpty(s)) continue;
    ++plan.segments;
    if (IsSmall(type, s.rows)) continue;
    rows += s.rows.outer * s.rows.inner;
    chunks += s.rows.outer * s.rows.inner * ChunksOf(type, s.rows);
  }
  plan.is_few = rows <= kFewRows;
  // Few parts are cut finer, until each warp of the grid has a chunk.
  while (plan.part_chunks > kMinPartChunks && chunks < plan.part_chunks * grid_blocks) plan.part_chunks /= 2;
  return plan;
}

// Whether a segment's rows are run in parts, of which `counters` are left.
bool InParts(DataType type, const SummarySegment& s, const Plan& plan, std::int64_t counters) {
  if (IsSmall(type, s.rows)) return false;
  return (plan.is_few || ChunksOf(type, s.rows) > kMaxPartChunks) && s.rows.outer * s.rows.inner <= counters;
}

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

DeviceSummary ToDevice(DataType type, const SummarySegment& summary, const Plan& plan, bool in_parts) {
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
  d.first_counter = -1;
  d.parts = 1;
  if (InLanes(type, summary)) return d;
  d.part_chunks = 1;
  if (IsSmall(type, s)) return d;
  const std::int64_t chunks = ChunksOf(type, s);
  d.has_lanes = HasLanes(type, summary) ? 1 : 0;
  d.part_chunks = static_cast<std::uint32_t>(in_parts ? std::min<std::int64_t>(chunks, plan.part_chunks) : chunks);
  d.parts = static_cast<std::uint32_t>(cuda::DivideUp(chunks, d.part_chunks));
  return d;
}

std::int64_t ItemsOf(const DeviceSummary& d) {
  if (d.part_chunks == 0) return cuda::DivideUp(d.rows, cuda::kBlockThreads / d.lanes);
  return d.rows * d.parts;
}

// Where a launch's segments lie.
struct Layout {
  std::int64_t items = 0;
  std::int64_t block_table_bytes = 0;
  std::int64_t row_table_bytes = 0;  // of all rows in parts

  std::int64_t Bytes(std::int64_t grid_blocks) const { return grid_blocks * block_table_bytes + row_table_bytes; }
};

// Calls use(device segment) with each segment that is not empty; its tables are counted from the first row's.
template <typename F>
Layout LayOut(DataType type, const SummarySegment* segments, std::int64_t count, const Plan& plan, F use) {
  Layout layout;
  std::int64_t counters = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (IsEmpty(segments[i])) continue;
    const bool in_parts = InParts(type, segments[i], plan, cuda::kSummaryCounters - counters);
    DeviceSummary d = ToDevice(type, segments[i], plan, in_parts);
    d.first_item = layout.items;
    layout.items += ItemsOf(d);
    const std::int64_t table_bytes = TableBytes(type, segments[i]);
    if (in_parts) {
      d.first_counter = counters;
      d.tables = layout.row_table_bytes;
      counters += d.rows;
      layout.row_table_bytes += d.rows * table_bytes;
    } else {
      layout.block_table_bytes = std::max(layout.block_table_bytes, table_bytes);
    }
    use(d);
  }
  return layout;
}

const void* KernelOf(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return cuda::Float16SummaryKernel();
    case DataType::kBFloat16:
      return cuda::BFloat16SummaryKernel();
    case DataType::kFloat64:
      return cuda::Float64SummaryKernel();
    case DataType::kFloat32:
      break;
  }
  return cuda::Float32SummaryKernel();
}

}  // namespace

std::size_t SummaryWorkspaceBytes(DataType input_type, const SummarySegment* segments, std::int64_t count) {
  cuda::Device device;
  if (cuda::CurrentDevice(&device) != cudaSuccess) return 0;
  const std::int64_t blocks = GridBlocks(device);
  const Plan plan = MakePlan(input_type, segments, count, blocks);
  const Layout layout = LayOut(input_type, segments, count, plan, [](const DeviceSummary&) {});
  return cuda::kSummaryCounterBytes + static_cast<std::size_t>(layout.Bytes(blocks));
}

std::size_t SummaryWorkspaceBytes(std::uint64_t input_bytes) {
  cuda::Device device;
  if (cuda::CurrentDevice(&device) != cudaSuccess) return 0;
  // Of fp64 rows with the maxima of all lanes, the largest tables. No row's has a fifth of its bytes; see TableBytes.
  const std::int64_t block_table = cuda::SummaryTableBytes(kMaxPartChunks, 8, true);
  return cuda::kSummaryCounterBytes + static_cast<std::size_t>(GridBlocks(device) * block_table) + input_bytes / 5;
}

std::size_t SummaryScratchBytes(std::int64_t count) {
  if (count <= cuda::kInlineSummaries) return 0;
  return static_cast<std::size_t>(count) * sizeof(DeviceSummary) + kMaxBlocks * sizeof(std::uint32_t);
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
  cuda::Device device;
  if (const cudaError_t error = cuda::CurrentDevice(&device); error != cudaSuccess) return error;
  const std::int64_t most_blocks = GridBlocks(device);
  const Plan plan = MakePlan(input_type, segments, count, most_blocks);
  if (plan.segments == 0) {  // the flag alone
    return LaunchSoftmaxBatch(input_type, output_type, nullptr, 0, nullptr, 0, completion, stream);
  }
  SummaryParams params;
  params.table = nullptr;
  params.block_first = nullptr;
  params.segment_count = static_cast<std::uint32_t>(plan.segments);
  params.output_type = output_type;
  params.completion = completion;
  const bool is_inline = plan.segments <= cuda::kInlineSummaries;
  if (!is_inline && (scratch == nullptr || scratch_bytes < SummaryScratchBytes(count) ||
                     reinterpret_cast<std::uintptr_t>(scratch) % alignof(DeviceSummary) != 0)) {
    return cudaErrorInvalidValue;
  }
  auto* const table = is_inline ? params.segments : static_cast<DeviceSummary*>(scratch);
  DeviceSummary* next = table;
  const Layout layout = LayOut(input_type, segments, count, plan, [&next](const DeviceSummary& d) { *next++ = d; });
  const std::size_t needed = cuda::kSummaryCounterBytes + static_cast<std::size_t>(layout.Bytes(most_blocks));
  if (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0 || workspace_bytes < needed) {
    return cudaErrorInvalidValue;
  }
  params.items = layout.items;
  params.counters = static_cast<std::uint32_t*>(workspace);
  params.block_tables = static_cast<unsigned char*>(workspace) + cuda::kSummaryCounterBytes;
  params.block_table_bytes = layout.block_table_bytes;
  params.row_tables = params.block_tables + most_blocks * layout.block_table_bytes;
  const std::int64_t blocks = std::min(params.items, most_blocks);
  params.items_per_block = cuda::DivideUp(params.items, blocks);
  if (!is_inline) {
    auto* const first = reinterpret_cast<std::uint32_t*>(table + plan.segments);
    std::uint32_t index = 0;
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t item = block * params.items_per_block;
      while (index + 1 < params.segment_count && table[index + 1].first_item <= item) ++index;
      first[block] = index;
    }
    params.table = table;
    params.block_first = first;
  }
  void* args[] = {&params};
  return cuda::Launch(KernelOf(input_type), cuda::Grid{blocks, cuda::kBlockThreads}, args, stream);
}

namespace cuda {

cudaError_t LoadSummaryKernels() {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64}) {
    cudaFuncAttributes attributes = {};
    if (const cudaError_t error = cudaFuncGetAttributes(&attributes, KernelOf(type)); error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}

}  // namespace cuda
}  // namespace softmax::kernels
