#include <algorithm>

#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/large_rows/bulk.h"
#include "kernels/cuda/plan/rows.h"

namespace softmax::kernels::cuda {
namespace {

// Kilobytes of rows that a multiprocessor has on their way by bulk copies: with more the memory is slower.
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

// Whether aligned fp32 rows go in parts: those of so many chunks that a cluster with a warp for each leaves places of
// the multiprocessors empty. Not those that begin on lines and nearly fill them. Log-softmax of so few chunks that the
// largest cluster would take too few with each block has none with a warp for each.
bool SuitsParts(const MatrixParams& p, bool lines) {
  constexpr int kLeastChunks = 193;
  constexpr int kFullChunks = 256;
  if (p.log && p.chunks > 64 && p.chunks <= 7 * kLargeClusterBlocks) return true;
  const bool is_full = p.chunks > kFullChunks - 2 * kLargeClusterBlocks && p.chunks <= kFullChunks;
  return p.chunks >= kLeastChunks && !(lines && is_full);
}

// How the blocks of a cluster take a part of a row each.
struct Parts {
  int blocks = 0;  // of the cluster; 0: not in parts
  int fit = 0;     // blocks on a multiprocessor, at most
};

// fp32 rows: parts of up to 17 chunks where a cluster of any device holds the row, or else its part of the largest
// cluster, unless that is small.
Parts FloatParts(const MatrixParams& p, const Device& device) {
  const auto blocks = static_cast<int>(DivideUp(p.chunks, 17));
  if (blocks > kMaxClusterBlocks && p.chunks >= 12 * device.cluster_blocks) return {device.cluster_blocks, 6};
  if (p.chunks < 12 * blocks) return {};
  return {blocks, blocks > kMaxClusterBlocks ? 6 : 5};
}

// Chunks of 16-bit rows from which on they go in two parts: off the boundaries those of which a multiprocessor would
// hold only two whole ones (BulkBlocks()), of aligned ones only nearly full parts gain.
constexpr int LeastTwoParts(bool skew) { return skew ? 23 : 29; }

// 16-bit rows: parts of about 15 chunks, six on a multiprocessor. With fewer of them there less is on its way wherever
// the parts come out small. But aligned rows whose parts are all large are better off with more warps for each, and
// those that fill the largest cluster in it.
Parts HalfParts(const MatrixParams& p, bool skew, const Device& device) {
  constexpr int kUsual = 15;
  constexpr int kMost = 16;
  constexpr int kMostBlocks = 13;  // of a cluster that is not the largest, as measured
  const auto large = static_cast<int>(DivideUp(p.chunks, 17));
  if (!skew && large <= kMaxClusterBlocks && (p.log ? 2 * p.chunks >= 31 * large : p.chunks >= 16 * large)) {
    return {large, 4};
  }
  if (large > kMaxClusterBlocks && p.chunks >= (skew ? 12 : p.log ? 11 : 14) * device.cluster_blocks) {
    return {device.cluster_blocks, 6};
  }
  const int most_blocks = p.chunks <= kMost * kMaxClusterBlocks ? kMaxClusterBlocks : kMostBlocks;
  const int blocks = std::min(most_blocks, static_cast<int>(DivideUp(p.chunks, kUsual)));
  if (p.chunks > kMost * blocks || (blocks == 2 && p.chunks < LeastTwoParts(skew))) return {};
  return {blocks, 6};
}

}  // namespace

bool PlanBulk(const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  if (!device.clusters) return false;
  const int bytes = plan->bytes();
  const auto slots = static_cast<int>(DivideUp(p.cols, 32 * VectorElements(bytes)));
  p.warp_vectors = PaddedSlots(slots) * 32 + kEdgeVectors;
  const int row_bytes = p.warp_vectors * kVectorBytes;
  const int blocks = BulkBlocks(p, row_bytes, bytes, device);
  if (!plan->mixed && !AreMany(4 * p.rows, 3 * blocks, device)) return false;
  p.warps = kBulkWarps / blocks;
  plan->threads = 32 * p.warps;
  plan->blocks = p.rows;
  // Behind the row what lies apart of it.
  plan->dynamic_bytes = row_bytes + (HasApart(bytes, true) ? p.chunks * kChunkSlots * kVectorBytes : 0);
  if (blocks * p.warps < kBulkWarps) {  // so much that no more blocks fit
    plan->dynamic_bytes = std::max(plan->dynamic_bytes, ShareOf(device, blocks, BulkTableBytes(bytes)));
  }
  return true;
}

bool PlanParts(const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const int bytes = plan->bytes();
  if (device.cluster_blocks == 1) return false;
  if (bytes == 4 && !plan->skew && !plan->mixed && !SuitsParts(p, plan->lines)) return false;
  const bool skew = plan->skew || bytes == 4 || plan->mixed;
  const Parts parts = bytes == 4 ? FloatParts(p, device) : HalfParts(p, skew, device);
  if (parts.blocks < 2 || parts.blocks > device.cluster_blocks) return false;
  const auto chunks = static_cast<int>(DivideUp(p.chunks, parts.blocks));
  if (chunks > PartChunks(bytes, plan->mixed)) return false;
  p.slice_bytes = (chunks * kChunkSlots * 32 + kEdgeVectors + 1) * kVectorBytes;
  // So much for each block that no more fit.
  const auto share = [&](int fit) { return ShareOf(device, fit, PartTableBytes(bytes, skew)); };
  const int needed = p.slice_bytes + p.chunks * 8;
  int fit = needed > share(parts.fit) ? parts.fit - 1 : parts.fit;
  while (plan->mixed && needed > share(fit)) --fit;
  // Aligned rows gain only where there are many rounds of blocks.
  const int rounds = skew || parts.blocks > kMaxClusterBlocks ? 1 : 8;
  if (needed > share(fit)) return false;
  if (!plan->mixed && !AreMany(p.rows * parts.blocks, rounds * fit, device)) return false;
  p.cluster_blocks = parts.blocks;
  p.warps = fit == 6 ? 4 : PartWarps(bytes);
  plan->threads = 32 * p.warps;
  plan->blocks = p.rows * parts.blocks;
  plan->dynamic_bytes = share(fit);
  return true;
}

}  // namespace softmax::kernels::cuda
