#include "kernels/cuda/large_rows/wide_plan.h"

#include <algorithm>
#include <limits>

#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/core/of_type.h"
#include "kernels/cuda/large_rows/wide.h"

namespace softmax::kernels::cuda {
namespace {

// A block's groups of a row, and how many units it has on their way at a time. As measured on an H100: more bytes on
// their way are no gain, and the places that wait for statistics are worth more.
constexpr int MostRingGroups(int bytes) { return bytes == 4 ? 4 : 2; }
constexpr int RingWindow(int bytes) { return bytes == 4 ? 12 : 20; }
// Whether the warps of a block have places for its groups.
constexpr bool HasPlaces(int bytes, bool log) {
  const RingShape ring = RingShapeOf(bytes, log);
  return ring.warps * ring.places * ring.chunks <= kRingPlaces &&
         DivideUp(MostRingGroups(bytes) * kGroupChunks / ring.chunks, ring.warps) <= ring.places + ring.kept;
}
static_assert(HasPlaces(2, false) && HasPlaces(2, true) && HasPlaces(4, false) && HasPlaces(4, true),
              "else blocks would wait in vain");

// Blocks of a plan's kernel that the device holds at a time.
int ResidentBlocks(DataType type, const MatrixPlan& plan, const Device& device) {
  int blocks = 0;
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, MatrixKernelOf(type, plan),
                                                                          plan.threads, plan.dynamic_bytes);
  return error == cudaSuccess ? blocks * device.multiprocessors : 0;
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

// Parts that are read at a time: more and the blocks fall into step, fewer and the memory waits; and it says how far
// ahead they are brought into the L2. As measured on an H100; with faster memory 16-bit groups were not.
int PartWindow(DataType type, const MatrixPlan& plan, int resident, const Device& device) {
  if (plan.params.block_groups > 1) return std::max(1, resident / 3);
  const bool is_long = SizeOf(type) == 2 && !device.fast_memory;
  return std::max(1, is_long ? resident * 5 / 6 : resident * 2 / 3);
}

// Rows that the table in the workspace holds.
int TableRows(DataType type, const MatrixParams& p) {
  const int entries = p.chunks <= kFlatChunks ? p.chunks : p.groups;
  constexpr std::int64_t kTableBytes = std::int64_t{kSoftmaxWorkspaceBytes} - kWorkspaceTable * 4;
  const std::int64_t rows = kTableBytes / (entries * (type == DataType::kFloat64 ? 32 : 16));
  return static_cast<int>(std::min({p.rows, rows, std::int64_t{kMaxTableRows}}));
}

// Plans rings for very many bytes of rows on 128-byte lines, as far as a multiprocessor holds its share of a row.
// False: others are as good or better.
bool PlanRing(DataType type, const Device& device, MatrixPlan* plan) {
  constexpr std::int64_t kLeastBytes = std::int64_t{192} << 20;
  MatrixParams& p = plan->params;
  const auto bytes = static_cast<int>(SizeOf(type));
  if (!device.clusters || bytes == 8 || !plan->lines || plan->skew || p.chunks <= kFlatChunks) return false;
  if (p.rows * p.cols * bytes < kLeastBytes || device.shared_bytes < kRingBytes) return false;
  p.groups = static_cast<int>(DivideUp(p.chunks, kGroupChunks));
  const auto each = static_cast<int>(DivideUp(p.groups, device.multiprocessors));
  if (each < 2 || each > MostRingGroups(bytes)) return false;
  plan->kind = MatrixKind::kWide;
  plan->slots = kRingSlots;
  plan->threads = RingShapeOf(bytes, p.log).Threads();
  plan->dynamic_bytes = kRingBytes;
  plan->blocks = device.multiprocessors;
  p.row_blocks = p.groups;  // a block leaves a row's place in the table once for each group
  p.table_rows = TableRows(type, p);
  p.part_window = RingWindow(bytes);
  const bool fits =
      ResidentBlocks(type, *plan, device) >= plan->blocks && p.rows <= std::numeric_limits<int>::max() / 2 / p.groups;
  if (fits) return true;
  plan->kind = MatrixKind::kNone;
  plan->slots = 0;
  plan->threads = kMatrixThreads;
  return false;
}

}  // namespace

int SliceVectors(int chunks, const MatrixPlan& plan) {
  return chunks * kChunkSlots * 32 + (plan.lines ? 0 : kEdgeVectors);
}

void PlanWide(DataType type, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  if (p.completion.workspace == nullptr || PlanRing(type, device, plan)) return;
  p.block_chunks = PartChunks(p, device);
  p.warp_vectors = SliceVectors(static_cast<int>(DivideUp(p.block_chunks, kBlockWarps)), *plan);
  plan->dynamic_bytes = kBlockWarps * p.warp_vectors * kVectorBytes;
  p.warp_chunks = p.block_chunks / kBlockWarps;
  p.warps = p.block_chunks % kBlockWarps;
  p.groups = static_cast<int>(DivideUp(p.chunks, p.block_chunks));
  plan->kind = MatrixKind::kWide;
  const std::int64_t resident = ResidentBlocks(type, *plan, device);
  p.block_groups = resident == 0 ? 1 : static_cast<int>(DivideUp(p.groups, resident));
  // A row that took most blocks would leave too few to read the next one meanwhile.
  const bool takes_most = 2 * p.groups > resident && p.groups * p.rows > resident;
  if (takes_most) p.block_groups = std::max(2, p.block_groups);
  p.row_blocks = static_cast<int>(DivideUp(p.groups, p.block_groups));
  p.by_row_blocks = ExactDivisor(p.row_blocks);
  p.table_rows = TableRows(type, p);
  p.by_table_rows = ExactDivisor(p.table_rows);
  plan->blocks = std::min(resident, p.rows * p.row_blocks);
  p.part_window = PartWindow(type, *plan, static_cast<int>(resident), device);
  const bool fits = plan->blocks >= p.row_blocks && p.rows <= std::numeric_limits<int>::max() / p.row_blocks;
  if (!fits) plan->kind = MatrixKind::kNone;
}

const void* WideKernelOf(DataType type, const MatrixPlan& plan) {
  const int skew = plan.skew ? 1 : 0;
  const int log = plan.params.log ? 1 : 0;
  if (plan.slots == kRingSlots) return WideKernelsFor(type).ring[log];
  return MatrixKernelsFor(type).wide[skew][log];
}

const WideKernels& WideKernelsFor(DataType type) {
  return OfType(type, Float32WideKernels, Float16WideKernels, BFloat16WideKernels, NoKernels<WideKernels>);
}

}  // namespace softmax::kernels::cuda
