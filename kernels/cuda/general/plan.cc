#include "kernels/cuda/general/plan.h"

#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/core/divisor.h"

namespace softmax::kernels::cuda {
namespace {

int Bytes(DataType type) { return static_cast<int>(SizeOf(type)); }

bool IsLarge(DataType type, const Segment& s) { return s.cols > SmallColumns(Bytes(type)); }

std::int64_t Chunks(DataType type, const Segment& s) { return DivideUp(s.cols, ChunkColumns(Bytes(type))); }

// The smallest cluster that leaves a warp four chunks; a larger one as long as blocks would otherwise be idle.
int ClusterBlocks(std::int64_t chunks, std::int64_t rows, const Device& device) {
  int blocks = 1;
  while (blocks < kMaxClusterBlocks && chunks > 4 * kBlockWarps * blocks) blocks *= 2;
  while (blocks < kMaxClusterBlocks && chunks > kBlockWarps * blocks && rows * blocks * 2 <= device.multiprocessors) {
    blocks *= 2;
  }
  return blocks;
}

std::int64_t ItemsOf(DataType type, const Segment& s, int blocks) {
  const int members = kBlockWarps * blocks;
  const int rows = IsLarge(type, s) ? members / RowWarps(Chunks(type, s), members)
                                    : kBlockThreads * blocks / RowLanes(s.cols, Bytes(type));
  return DivideUp(s.outer, rows);
}

}  // namespace

void PlanGeneral(DataType input_type, DataType output_type, const Segment* segments, std::int64_t count, void* scratch,
                 const Completion& completion, const Device& device, GeneralPlan* plan) {
  GeneralParams& p = plan->params;
  std::int64_t chunks = 1;  // of the widest rows
  std::int64_t rows = 0;    // of those with more than a chunk for each warp of a block
  p.segment_count = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (IsEmpty(segments[i])) continue;
    ++p.segment_count;
    if (!IsLarge(input_type, segments[i])) continue;
    chunks = std::max(chunks, Chunks(input_type, segments[i]));
    if (Chunks(input_type, segments[i]) > kBlockWarps) rows += segments[i].outer;
  }
  p.cluster_blocks = device.clusters ? ClusterBlocks(chunks, rows, device) : 1;
  p.table = p.segment_count > kInlineSegments ? static_cast<GeneralSegment*>(scratch) : nullptr;
  p.items = 0;
  GeneralSegment* next = p.table != nullptr ? static_cast<GeneralSegment*>(scratch) : p.segments;
  for (std::int64_t i = 0; i < count; ++i) {
    if (IsEmpty(segments[i])) continue;
    *next++ = GeneralSegment{segments[i], p.items};
    p.items += ItemsOf(input_type, segments[i], p.cluster_blocks);
  }
  const std::int64_t room = (device.shared_bytes - kGeneralTableBytes) / kStashBytes;
  const std::int64_t wanted = DivideUp(chunks, p.cluster_blocks * kBlockWarps);
  p.kept_chunks = static_cast<std::int32_t>(std::min(wanted, room));
  p.output_type = output_type;
  p.completion = completion;
  const int small_bytes = SmallSlots(Bytes(input_type)) * kBlockThreads * kVectorBytes;
  plan->dynamic_bytes = kGeneralTableBytes + std::max(p.kept_chunks * kStashBytes, small_bytes);
  // Several waves of blocks, so that the hardware can even out what they take.
  const std::int64_t most = std::min(kMaxGridBlocks, device.multiprocessors * 16) / p.cluster_blocks;
  const std::int64_t teams = std::min(p.items, most);
  p.items_per_team = DivideUp(p.items, teams);
  plan->blocks = teams * p.cluster_blocks;
}

}  // namespace softmax::kernels::cuda
