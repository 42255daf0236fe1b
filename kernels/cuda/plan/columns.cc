#include "kernels/cuda/plan/columns.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/cuda/core/divisor.h"

namespace softmax::kernels::cuda {
namespace {

DeviceSegment ToDevice(const Segment& s) {
  const bool one = s.outer == 1;
  DeviceSegment d = {};
  d.input = s.input;
  d.output = s.output;
  d.lengths = s.lengths;
  d.outer = s.outer;
  d.cols = s.cols;
  d.inner = s.inner;
  d.input_stride = one ? s.cols * s.inner : s.input_stride;
  d.output_stride = one ? s.cols * s.inner : s.output_stride;
  d.scale = s.scale;
  d.log = s.operation == Operation::kLogSoftmax ? 1 : 0;
  return d;
}

// Whether units of so many bytes, which are up to 16, lie on boundaries of as many in the input. Their results, which
// are accesses of 16 bytes at most, lie as well then.
bool Lies(const DeviceSegment& d, int unit_bytes, int bytes, int output_bytes) {
  const std::int64_t elements = unit_bytes / bytes;
  const auto stored = std::min<std::uintptr_t>(static_cast<std::uintptr_t>(elements * output_bytes), kVectorBytes);
  return reinterpret_cast<std::uintptr_t>(d.input) % static_cast<unsigned>(unit_bytes) == 0 &&
         reinterpret_cast<std::uintptr_t>(d.output) % stored == 0 && d.inner % elements == 0 &&
         d.input_stride % elements == 0 && d.output_stride % elements == 0;
}

// Few columns: a thread for each unit.
bool PlanFew(int bytes, DataType output_type, ColumnPlan* plan) {
  constexpr int kLeastBytes = 32;  // of neighbouring elements: one sector of memory
  ColumnParams& p = plan->params;
  const DeviceSegment& d = p.segment;
  const auto output_bytes = static_cast<int>(SizeOf(output_type));
  const bool is_usual = !plan->mixed || (bytes == 2 && output_type == DataType::kFloat32) ||
                        (bytes == 4 && output_bytes == 2);  // as ForUsualOutput() has them
  if (bytes == 8 || !is_usual || d.lengths != nullptr || d.inner * bytes < kLeastBytes) return false;
  int few = 0;
  while (few < kFewSizes && d.cols > kFewColumns[few]) ++few;
  if (few == kFewSizes) return false;
  const int unit_bytes = FewUnitBytes(kFewColumns[few], bytes);
  const bool wide = Lies(d, unit_bytes, bytes, output_bytes);
  if (kFewColumns[few] > 32 && !wide) return false;
  const std::int64_t units = d.inner / (wide ? unit_bytes / bytes : 1);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - kBlockThreads;
  if (units > kMost || d.outer > kMost / units) return false;
  p.units = static_cast<std::int32_t>(units);
  plan->few = few;
  plan->wide = wide;
  plan->threads = kFewThreads;
  plan->blocks = DivideUp(d.outer * units, plan->threads);
  return true;
}

// Others: a unit's columns are shared by as many threads as hold the lanes of the tree. Large rows have the largest
// cluster that there are chunks, or groups of them, for: what is read twice is read again while it is still in the L2.
bool PlanLanes(int bytes, DataType output_type, std::int64_t chunks, const Device& device, ColumnPlan* plan) {
  ColumnParams& p = plan->params;
  const DeviceSegment& d = p.segment;
  const bool is_small = d.cols <= SmallColumns(bytes);
  const int lanes = is_small ? std::max(4, RowLanes(d.cols, bytes)) : 32;  // empty ones change nothing
  const std::int64_t columns = is_small ? d.cols : ChunkColumns(bytes);
  const bool has_four = bytes == 4 && DivideUp(columns, lanes * VectorElements(bytes)) <= kChunkSlots;
  p.lanes = has_four ? 4 : 2;
  p.shares = lanes / p.lanes;
  const int unit_bytes = 4;
  plan->wide = bytes == 2 && d.lengths == nullptr && Lies(d, unit_bytes, bytes, static_cast<int>(SizeOf(output_type)));
  const std::int64_t units = d.inner / (plan->wide ? unit_bytes / bytes : 1);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - kBlockThreads;
  if (units > kMost || d.outer > kMost / units) return false;
  p.units = static_cast<std::int32_t>(units);
  p.cluster_blocks = 1;
  if (!is_small) {
    p.chunks = static_cast<std::int32_t>(chunks);
    const bool is_grouped = chunks > kFlatChunks;
    const std::int64_t parts = is_grouped ? DivideUp(chunks, kGroupChunks) : chunks;
    const std::int64_t rounds = DivideUp(parts, device.cluster_blocks);
    p.cluster_blocks = static_cast<std::int32_t>(DivideUp(parts, rounds));
    // Their entries of the table are the blocks' own.
    while (chunks > kGroupChunks && kAccumulators % p.cluster_blocks != 0) --p.cluster_blocks;
    p.entries = is_grouped ? kAccumulators + kGroupChunks
                           : static_cast<std::int32_t>(std::min<std::int64_t>(chunks, kGroupChunks));
  }
  // Half a block where a unit has few threads, so that more blocks take turns; the less side by side, down to a sector
  // of memory, the fewer there are. A few units that nearly fill a power of two are alone.
  int side = (p.shares > 4 ? kBlockThreads : kBlockThreads / 2) / p.shares;
  int alone = 32 / p.shares;
  while (alone < 16 && alone < units) alone *= 2;
  const bool is_alone = 4 * units >= 3 * alone && units <= alone && alone <= side;
  if (is_alone) side = alone;
  p.width = is_alone ? alone : p.units;
  const auto blocks = [&] { return DivideUp(d.outer * p.width, side) * p.cluster_blocks; };
  const std::int64_t wanted = 2 * std::int64_t{device.multiprocessors};
  while (!is_alone && side > 8 && side * p.shares > 32 && blocks() < wanted) side /= 2;
  p.side_log = std::countr_zero(static_cast<unsigned>(side));
  plan->threads = side * p.shares;
  plan->blocks = blocks();
  const int unit = plan->wide ? unit_bytes / bytes : 1;
  plan->dynamic_bytes = unit * (LanesSharedBytes(bytes) + p.entries * side * kLanesEntryBytes);
  return plan->dynamic_bytes <= device.shared_bytes;
}

}  // namespace

ColumnPlan PlanColumns(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
                       const Device& device) {
  ColumnPlan plan;
  ColumnParams& p = plan.params;
  const auto bytes = static_cast<int>(SizeOf(type));
  const std::int64_t chunks = DivideUp(segment.cols, ChunkColumns(bytes));
  p.segment = ToDevice(segment);
  p.scale_double = ScaleParts<double>::Of(segment.scale);
  p.scale_float = ScaleParts<float>::Of(segment.scale);
  p.completion = completion;
  p.output_type = output_type;
  p.cluster_blocks = 1;
  plan.mixed = output_type != type;
  if (segment.inner <= 1 || chunks >= std::numeric_limits<std::int32_t>::max()) return plan;
  const bool is_fast = type == DataType::kFloat64 || p.scale_float.fast != 0;  // as few columns need it
  plan.possible =
      (is_fast && PlanFew(bytes, output_type, &plan)) || PlanLanes(bytes, output_type, chunks, device, &plan);
  if (plan.blocks > std::numeric_limits<std::int32_t>::max()) plan.possible = false;
  return plan;
}

void PlanAhead(DataType type, ColumnPlan* plan) {
  // Neighbouring blocks have about what lies in neighbouring shares if outer blocks are small.
  constexpr std::int64_t kMostOuterBytes = 8 << 20;
  ColumnParams& p = plan->params;
  const DeviceSegment& s = p.segment;
  const auto element_bytes = static_cast<std::int64_t>(SizeOf(type));
  const std::int64_t outer_bytes = s.cols * s.inner * element_bytes;
  // Others gained nothing, or lost up to 5 %.
  const bool suits = plan->few >= 0;
  if (!suits || s.input_stride != s.cols * s.inner || outer_bytes > kMostOuterBytes) return;
  const std::int64_t share = s.outer * outer_bytes / plan->blocks / kVectorBytes * kVectorBytes;
  if (share == 0) return;
  p.ahead_bytes = static_cast<std::int32_t>(share);
}

}  // namespace softmax::kernels::cuda
