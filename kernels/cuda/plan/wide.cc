#include <algorithm>
#include <limits>

#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/plan/rows.h"

namespace softmax::kernels::cuda {
namespace {

// Blocks of the kernel that a multiprocessor holds at a time, as its registers and its tables in shared memory allow.
int ResidentBlocks(const MatrixPlan& plan, const Device& device) {
  constexpr int kMost = 3;
  constexpr int kTableBytes = 10 * 1024 + 256;  // with what the system takes
  constexpr int kReservedBytes = 2048;          // that Device::shared_bytes leaves out
  return std::min(kMost, (device.shared_bytes + kReservedBytes) / (plan.dynamic_bytes + kTableBytes));
}

// Chunks of a row that a block of the wide kernel takes: a group, or where chunks are told one by one, few enough that
// three blocks share a multiprocessor, and that few rows give each one a block.
int PartChunks(const MatrixParams& p, const Device& device) {
  if (p.chunks > kFlatChunks) return kGroupChunks;
  constexpr int kTableChunks = 4;  // what the tables take, rounded up
  const int most = (device.shared_bytes + kMatrixTableBytes) / 3 / kChunkBytes - kTableChunks;
  auto parts = static_cast<int>(DivideUp(p.chunks, std::clamp(most, kBlockWarps, kGroupChunks)));
  while (p.chunks > 4 * parts && p.rows * parts * 2 <= device.multiprocessors) parts *= 2;
  return static_cast<int>(DivideUp(p.chunks, parts));
}

// Rows that the table in the workspace holds.
int TableRows(int bytes, const MatrixParams& p) {
  const int entries = p.chunks <= kFlatChunks ? p.chunks : p.groups;
  constexpr std::int64_t kTableBytes = std::int64_t{kSoftmaxWorkspaceBytes} - kWorkspaceTable * 4;
  const std::int64_t rows = kTableBytes / (entries * (bytes == 8 ? 32 : 16));
  return static_cast<int>(std::min({p.rows, rows, std::int64_t{kMaxTableRows}}));
}

}  // namespace

bool PlanWide(const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  // Clusters hold the others.
  if (p.completion.workspace == nullptr || (p.chunks <= kFlatChunks && device.cluster_blocks > 1)) return false;
  p.block_chunks = PartChunks(p, device);
  p.warp_vectors = SliceVectors(static_cast<int>(DivideUp(p.block_chunks, kBlockWarps)));
  plan->dynamic_bytes = kBlockWarps * p.warp_vectors * kVectorBytes;
  p.warp_chunks = p.block_chunks / kBlockWarps;
  p.warps = p.block_chunks % kBlockWarps;
  p.groups = static_cast<int>(DivideUp(p.chunks, p.block_chunks));
  const std::int64_t resident = std::int64_t{ResidentBlocks(*plan, device)} * device.multiprocessors;
  if (resident == 0) return false;
  p.block_groups = static_cast<int>(DivideUp(p.groups, resident));
  // A row that took most blocks would leave too few to read the next one meanwhile.
  const bool takes_most = 2 * p.groups > resident && p.groups * p.rows > resident;
  if (takes_most) p.block_groups = std::max(2, p.block_groups);
  p.row_blocks = static_cast<int>(DivideUp(p.groups, p.block_groups));
  p.table_rows = TableRows(plan->bytes(), p);
  plan->blocks = std::min(resident, p.rows * p.row_blocks);
  return plan->blocks >= p.row_blocks && p.rows <= std::numeric_limits<int>::max() / p.row_blocks;
}

}  // namespace softmax::kernels::cuda
