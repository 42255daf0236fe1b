#include <algorithm>

#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/small_rows/tile.h"

namespace softmax::kernels::cuda {
namespace {

// Kilobytes of rows that a multiprocessor has on their way by bulk copies. More at a time, and the memory is slower;
// fewer, and it waits.
struct BulkBytes {
  int most;
  int three = 0;  // up to which there are at least three rows, as their arithmetic takes longer
  int four = 0;   // the same for four
};

// As measured on an H100, and with faster memory on an H200.
BulkBytes BulkBytesOf(const MatrixParams& p, int bytes, const Device& device) {
  // Rows of doubles of a few chunks have no even share for two warps, so there are more of them with one.
  constexpr int kFewDoubles = 896;
  if (bytes == 8) return {p.cols <= kFewDoubles ? 130 : 100, 130};
  if (!device.fast_memory) return {100, bytes == 2 ? 135 : p.log ? 118 : 0};
  if (bytes == 2) return {p.log ? 145 : 160, 190, 190};
  constexpr int kFewFloats = 4096;
  return {p.log || p.cols > kFewFloats ? 130 : 100, 190, 138};
}

// Blocks of a multiprocessor that bulk copies serve, a row each: 24 warps of that kernel fit.
int BulkBlocks(const MatrixParams& p, int row_bytes, int bytes, const Device& device) {
  constexpr int kFourChunks = 13;  // 16-bit softmax comes in fours
  if (bytes == 2 && !p.log && p.chunks == kFourChunks && !device.fast_memory) return 4;
  const BulkBytes all = BulkBytesOf(p, bytes, device);
  const auto fit = [&](int count, int kilobytes) { return count * row_bytes <= kilobytes * 1024; };
  const int fewest = fit(4, all.four) ? 4 : fit(3, all.three) ? 3 : 2;
  const int blocks = std::clamp(all.most * 1024 / row_bytes, fewest, kBulkWarps);
  // Fewer where their warps then fill all places.
  const int even = kBulkWarps / static_cast<int>(DivideUp(kBulkWarps, blocks));
  const int least_bytes = all.most * 1024 / 100 * 78;
  return even * row_bytes >= least_bytes ? even : blocks;
}

}  // namespace

bool PlanBulk(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const auto slots = static_cast<int>(DivideUp(p.cols, 32 * VectorElements(bytes)));
  const bool takes = plan->skew || bytes == 8 || plan->mixed;
  if (!device.clusters || !takes || p.chunks > BulkChunks(bytes)) return false;
  p.warp_vectors = PaddedSlots(slots) * 32 + kEdgeVectors;
  const int row_bytes = p.warp_vectors * kVectorBytes;
  const int blocks = BulkBlocks(p, row_bytes, bytes, device);
  if (!plan->mixed && 4 * p.rows < std::int64_t{3} * blocks * device.multiprocessors) return false;
  p.warps = kBulkWarps / blocks;
  plan->kind = MatrixKind::kBulk;
  plan->threads = 32 * p.warps;
  plan->blocks = p.rows;
  // Behind the row what lies apart of it.
  const int needed = row_bytes + (HasApart(bytes, true) ? p.chunks * kChunkSlots * kVectorBytes : 0);
  plan->dynamic_bytes = needed;
  if (blocks * p.warps < kBulkWarps) {
    // So much that no more blocks fit. The system takes 1 KB of each.
    constexpr int kSystemBytes = 1024;
    const int share = (device.shared_bytes + kSystemBytes) / blocks - kSystemBytes - BulkTableBytes(bytes);
    plan->dynamic_bytes = std::max(needed, share / kVectorBytes * kVectorBytes);
  }
  return true;
}

}  // namespace softmax::kernels::cuda
