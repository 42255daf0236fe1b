#include <algorithm>
#include <cmath>

#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/large_rows/bulk.h"
#include "kernels/cuda/plan/rows.h"

namespace softmax::kernels::cuda {
namespace {

constexpr int kAlone = 52;                    // chunks of a row for one block, where there are clusters
constexpr int kMost = 4 * kWideThreads / 32;  // of what a block takes

// How many blocks share a row: one where two of them fit on a multiprocessor, otherwise as few as leave room for three;
// more while the device has blocks to spare, and of rows so wide that their parts stay large, a few blocks for each
// multiprocessor.
int BlocksOfRow(int chunks, std::int64_t rows, const Device& device) {
  if (device.cluster_blocks == 1) return 1;
  constexpr int kTogether = 33;
  const int most = device.cluster_blocks;
  int blocks = chunks <= kAlone ? 1 : std::min(most, static_cast<int>(DivideUp(chunks, kTogether)));
  const auto fits = [&](int each) { return blocks * 2 <= most && AreFew(rows * blocks * 2, each, device); };
  while (chunks > 2 * blocks && fits(1)) blocks *= 2;
  while (chunks > 8 * blocks && fits(4)) blocks *= 2;
  return blocks;
}

// Shared memory for each block, enlarged where fewer blocks at a time make the last round of blocks fuller: there are
// so few rounds of blocks this large that a nearly empty last one costs more.
int SliceBytes(int bytes, std::int64_t blocks, const Device& device) {
  const int room = device.shared_bytes + kMatrixTableBytes;
  double best = 0;
  int chosen = bytes;
  const int most = room / (bytes + kMatrixTableBytes);
  for (int fit = most; fit >= 2 && most <= 4; --fit) {
    const double rounds = static_cast<double>(blocks) / (fit * device.multiprocessors);
    const double fullness = rounds / std::ceil(rounds);
    if (fullness <= best + 0.01) continue;
    best = fullness;
    chosen = std::max(bytes, room / fit - kMatrixTableBytes);
  }
  return chosen;
}

// Warps of each block of a cluster that takes a chunk with each warp. Of rows of up to 64 chunks the number that leaves
// the fewest warps idle, of wider ones what the largest cluster asks for. 0: too many would be idle.
int WarpsOfCluster(int bytes, const MatrixParams& p, const Device& device) {
  constexpr int kUsual = 8;
  int warps = 0;
  int idle = p.chunks;
  if (p.chunks <= kUsual * kMaxClusterBlocks) {
    for (int w = kUsual; w >= 5; --w) {
      const auto blocks = static_cast<int>(DivideUp(p.chunks, w));
      if (blocks > kMaxClusterBlocks || blocks * w - p.chunks >= idle) continue;
      warps = w;
      idle = blocks * w - p.chunks;
    }
    return bytes == 4 || 16 * idle <= p.chunks ? warps : 0;
  }
  // 16-bit rows of so many chunks would fold too many statistics in each warp.
  if (bytes == 2 || device.cluster_blocks < kLargeClusterBlocks) return 0;
  warps = static_cast<int>(DivideUp(p.chunks, kLargeClusterBlocks));
  idle = kLargeClusterBlocks * warps - p.chunks;
  if (p.log && (warps < kUsual || 16 * idle > p.chunks)) return 0;
  return warps <= ClusterWarps(bytes, p.log) ? warps : 0;
}

// A warp for each chunk in so many blocks for each row.
bool PlanShared(int blocks, int most_threads, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  p.warps = static_cast<int>(DivideUp(p.chunks, blocks));
  plan->threads = 32 * p.warps;
  plan->blocks = p.rows * blocks;
  return blocks > 1 && AreFew(plan->blocks, 2, device) && plan->threads <= most_threads;
}

}  // namespace

bool PlanChunk(const Device&, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  p.warps = p.chunks;
  p.rows_per_block = std::max(1, kBlockWarps / p.warps);
  plan->threads = 32 * p.warps * p.rows_per_block;
  plan->blocks = DivideUp(p.rows, p.rows_per_block);
  return true;
}

bool PlanFew(const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  p.cluster_blocks = BlocksOfRow(p.chunks, p.rows, device);
  return PlanShared(p.cluster_blocks, kWideThreads, device, plan);
}

// A single row so wide that a cluster would be long at its bytes. More blocks would be in each other's way at the
// table.
bool PlanFewGrid(const Device& device, MatrixPlan* plan) {
  constexpr int kTableCopies = 2;
  MatrixParams& p = plan->params;
  const int blocks = p.chunks > 32 * kBlockWarps ? 64 : 32;
  if (p.rows != 1 || p.completion.workspace == nullptr || blocks > device.multiprocessors) return false;
  p.cluster_blocks = 1;
  p.table_rows = kTableCopies;
  return PlanShared(blocks, kMatrixThreads, device, plan);
}

bool PlanCluster(const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const int warps = device.cluster_blocks > 1 ? WarpsOfCluster(plan->bytes(), p, device) : 0;
  if (warps == 0) return false;
  p.warps = warps;
  p.cluster_blocks = static_cast<int>(DivideUp(p.chunks, warps));
  plan->threads = 32 * warps;
  plan->blocks = p.rows * p.cluster_blocks;
  return true;
}

bool PlanSlice(const Device& device, MatrixPlan* plan) {
  const int bytes = plan->bytes();
  MatrixParams& p = plan->params;
  p.cluster_blocks = BlocksOfRow(p.chunks, p.rows, device);
  const auto chunks = static_cast<int>(DivideUp(p.chunks, p.cluster_blocks));
  if (chunks > kMost || (bytes < 8 && chunks <= (plan->skew ? 1 : 2) * kBlockWarps)) return false;
  p.rows_per_block = 1;
  p.block_chunks = chunks;
  p.warp_chunks = std::min(4, static_cast<int>(DivideUp(chunks, kBlockWarps)));
  p.warp_vectors = SliceVectors(p.warp_chunks);
  const auto warps = static_cast<int>(DivideUp(chunks, p.warp_chunks));
  plan->threads = 32 * warps;
  plan->blocks = p.rows * p.cluster_blocks;
  const int missing = warps * p.warp_chunks - chunks;  // of the last warp
  p.slice_bytes = warps * p.warp_vectors * kVectorBytes - missing * kChunkBytes;
  plan->dynamic_bytes = p.slice_bytes + p.chunks * (bytes == 8 ? 16 : 8);
  if (p.cluster_blocks == 1) plan->dynamic_bytes = SliceBytes(plan->dynamic_bytes, plan->blocks, device);
  return plan->dynamic_bytes <= device.shared_bytes - kMatrixTableBytes;
}

// Short rows lie side by side in a block. Where slices are to take more chunks a block (PlanSlice), these do not.
bool PlanLarge(const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  p.cluster_blocks = BlocksOfRow(p.chunks, p.rows, device);
  p.warps = static_cast<int>(DivideUp(p.chunks, p.cluster_blocks));
  const int most = plan->mixed ? kWideThreads / 32 : (plan->skew ? 1 : 2) * kBlockWarps;
  p.rows_per_block = p.cluster_blocks == 1 ? std::max(1, kBlockWarps / p.warps) : 1;
  plan->threads = 32 * p.warps * p.rows_per_block;
  plan->blocks = DivideUp(p.rows, p.rows_per_block) * p.cluster_blocks;
  return p.warps <= most;
}

}  // namespace softmax::kernels::cuda
