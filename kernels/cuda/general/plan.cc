#include "kernels/cuda/general/plan.h"

#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/core/divisor.h"

namespace softmax::kernels::cuda {
namespace {

int Bytes(DataType type) { return static_cast<int>(SizeOf(type)); }

std::int64_t Chunks(DataType type, const Segment& s) { return DivideUp(s.cols, ChunkColumns(Bytes(type))); }

int StatsBytes(DataType type) { return type == DataType::kFloat64 ? 16 : 8; }

bool IsLarge(DataType type, const Segment& s) { return s.inner == 1 && s.cols > SmallColumns(Bytes(type)); }

// More than one chunk for each warp of a block: worth a cluster, if there are any.
bool WantsCluster(DataType type, const Segment& s) { return IsLarge(type, s) && Chunks(type, s) > kBlockWarps; }

// The smallest cluster that keeps a warp at four chunks; a larger one as long as blocks would otherwise be idle.
int ClusterBlocks(std::int64_t chunks, std::int64_t rows, const Device& device) {
  int blocks = 1;
  while (blocks < kMaxClusterBlocks && chunks > 4 * kBlockWarps * blocks) blocks *= 2;
  while (blocks < kMaxClusterBlocks && chunks > kBlockWarps * blocks && rows * blocks * 2 <= device.multiprocessors) {
    blocks *= 2;
  }
  return blocks;
}

// Chunks per warp a block can keep in shared memory beside the tables.
int StashLimit(DataType type, int table_entries, const Device& device) {
  const int room = device.shared_bytes - 2 * table_entries * StatsBytes(type);
  return std::max(0, room / kStashBytes);
}

struct Widest {
  std::int64_t block_chunks = 0;    // of rows that one block takes
  std::int64_t cluster_chunks = 0;  // of rows that a cluster may take
  std::int64_t cluster_rows = 0;
  std::int64_t column_cols = 0;
};

Widest FindWidest(DataType type, const Segment* segments, std::int64_t count) {
  Widest widest;
  for (std::int64_t i = 0; i < count; ++i) {
    const Segment& s = segments[i];
    if (IsEmpty(s)) continue;
    if (s.inner > 1) {
      widest.column_cols = std::max(widest.column_cols, s.cols);
    } else if (WantsCluster(type, s)) {
      widest.cluster_chunks = std::max(widest.cluster_chunks, Chunks(type, s));
      widest.cluster_rows += s.outer;
    } else if (IsLarge(type, s)) {
      widest.block_chunks = std::max(widest.block_chunks, Chunks(type, s));
    }
  }
  return widest;
}

// Shared memory of the column kernel: as many tiles of the widest rows as they have, up to what leaves room for two
// blocks on a multiprocessor, and at least one.
int ColumnBytes(DataType type, std::int64_t cols, const Device& device) {
  const int bytes = Bytes(type);
  const int tile = ColumnTilePitch(cols, bytes) * TileRows(bytes);
  const std::int64_t chunks = cols <= SmallColumns(bytes) ? 1 : DivideUp(cols, ChunkColumns(bytes));
  const int stats = RowStatsBytes(StatsBytes(type) / 2) * TileRows(bytes);
  const std::int64_t fit = std::max<std::int64_t>(1, (device.shared_bytes / 2 - stats) / tile);
  return stats + static_cast<int>(std::min(chunks, fit)) * tile;
}

void PlanSharedMemory(DataType type, const Widest& widest, const Device& device, Plan* plan) {
  const std::int64_t chunks = std::max(widest.block_chunks, widest.cluster_chunks);
  if (chunks > 1) {
    const int warps = plan->cluster_blocks * kBlockWarps;
    // Wider rows exchange the accumulators alone.
    plan->table_entries = static_cast<int>(std::clamp<std::int64_t>(chunks, kAccumulators, kFlatChunks));
    plan->table_entries = (plan->table_entries + 1) / 2 * 2;
    const std::int64_t wanted = DivideUp(chunks, warps) - 1;
    plan->stash_chunks =
        static_cast<int>(std::min<std::int64_t>(wanted, StashLimit(type, plan->table_entries, device)));
    plan->dynamic_bytes = 2 * plan->table_entries * StatsBytes(type) + plan->stash_chunks * kStashBytes;
  }
  if (widest.column_cols > 0) {
    plan->dynamic_bytes = std::max(plan->dynamic_bytes, ColumnBytes(type, widest.column_cols, device));
  }
}

}  // namespace

std::int64_t ItemsOf(DataType type, const Segment& s) {
  const int bytes = Bytes(type);
  if (s.inner > 1) return s.outer * DivideUp(s.inner, TileRows(bytes));
  if (WantsCluster(type, s)) return s.outer;
  if (IsLarge(type, s)) return DivideUp(s.outer, SideRows(Chunks(type, s)));
  return DivideUp(s.outer, kBlockThreads / RowLanes(s.cols, bytes));
}

bool UsesCluster(DataType type, const Segment& s, const Plan& plan) {
  return plan.cluster_blocks > 1 && WantsCluster(type, s);
}

Plan MakePlan(DataType type, const Segment* segments, std::int64_t count, const Device& device) {
  Plan plan;
  const Widest widest = FindWidest(type, segments, count);
  if (device.clusters && widest.cluster_chunks > 0) {
    plan.cluster_blocks = ClusterBlocks(widest.cluster_chunks, widest.cluster_rows, device);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (IsEmpty(segments[i])) continue;
    const bool cluster = UsesCluster(type, segments[i], plan);
    ++plan.segments;
    plan.cluster_segments += cluster ? 1 : 0;
    (cluster ? plan.cluster_items : plan.block_items) += ItemsOf(type, segments[i]);
  }
  PlanSharedMemory(type, widest, device, &plan);
  // Several waves of blocks, so that the hardware can even out what they take.
  const std::int64_t most = std::min(kMaxGridBlocks, device.multiprocessors * 16);
  const std::int64_t wanted = std::max(plan.block_items, std::min(plan.cluster_items, most) * plan.cluster_blocks);
  plan.grid_blocks = static_cast<int>(DivideUp(std::min(wanted, most), plan.cluster_blocks) * plan.cluster_blocks);
  return plan;
}

DeviceSegment ToDevice(DataType input_type, DataType output_type, const Segment& s, std::int64_t first_item) {
  const auto wide = [&s](const void* pointer, std::int64_t stride, int bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const bool rows_aligned = s.outer == 1 || stride * bytes % kVectorBytes == 0;
    return static_cast<std::uint8_t>(address % kVectorBytes == 0 && rows_aligned);
  };
  DeviceSegment d = {};
  d.input = s.input;
  d.output = s.output;
  d.lengths = s.lengths;
  d.outer = s.outer;
  d.cols = s.cols;
  d.inner = s.inner;
  d.input_stride = s.input_stride;
  d.output_stride = s.output_stride;
  d.scale = s.scale;
  d.first_item = first_item;
  d.lanes = static_cast<std::uint32_t>(RowLanes(s.cols, Bytes(input_type)));
  d.log = s.operation == Operation::kLogSoftmax ? 1 : 0;
  d.input_wide = wide(s.input, s.input_stride, Bytes(input_type));
  d.output_wide = wide(s.output, s.output_stride, Bytes(output_type));
  return d;
}

}  // namespace softmax::kernels::cuda
