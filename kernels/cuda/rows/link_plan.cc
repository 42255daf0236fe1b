#include <algorithm>
#include <numeric>

#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/core/of_type.h"
#include "kernels/cuda/rows/link.h"

namespace softmax::kernels::cuda {
namespace {

// On their way at a time, of small rows and of large ones. More come late, and are all written after that; fewer do not
// keep the link busy. As measured on an H100.
constexpr std::int64_t kAloneBytes = 256 << 10;
constexpr std::int64_t kSharedBytes = 128 << 10;  // where other launches have as much
constexpr std::int64_t kLargeBytes = 512 << 10;
constexpr std::int64_t kLeastLargeBlocks = 8;

constexpr int kLineBytes = kEdgeVectors * kVectorBytes;
constexpr int kNarrowBytes = 512;  // of a row: wider ones lose little where they begin and end within lines
constexpr int kStageBytes = 4096;  // that a warp stages, about,
constexpr int kMostStageBytes = 8192;

// Neighbouring rows that begin and end on lines together, about as many as a warp stages; 0: there are none.
int StageRows(const MatrixParams& p, int row_bytes) {
  const bool is_dense = p.rows == 1 || (p.input_stride == p.cols && p.output_stride == p.cols);
  const auto begins = reinterpret_cast<std::uintptr_t>(p.input) | reinterpret_cast<std::uintptr_t>(p.output);
  const int step = kLineBytes / std::gcd(kLineBytes, row_bytes);
  if (!is_dense || begins % kLineBytes != 0 || step * row_bytes > kMostStageBytes) return 0;
  return step * std::max(1, kStageBytes / (step * row_bytes));
}

const void* PlanSmall(DataType type, int bytes, bool shared, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const int lanes = RowLanes(p.cols, bytes);
  const auto row_bytes = static_cast<int>(p.cols) * bytes;
  const auto slots = static_cast<int>(DivideUp(DivideUp(p.cols, VectorElements(bytes)), lanes));
  const int size = slots <= 2 ? 0 : slots <= 4 ? 1 : 2;
  const int pass_rows = 32 / lanes * SmallRows(2 << size);
  const bool is_of_lines = row_bytes % kLineBytes == 0 && lanes >= kEdgeVectors;
  const bool is_staged = row_bytes <= kNarrowBytes && !is_of_lines;
  const int rows = is_staged ? StageRows(p, row_bytes) : pass_rows;
  if (rows == 0) return nullptr;
  std::int64_t on_way = shared ? kSharedBytes : kAloneBytes;
  // Each pass over its rows takes a warp longer than what it stages is on its way.
  if (is_staged) on_way += on_way * DivideUp(rows, pass_rows) * 3 / 2;
  p.lanes = lanes;  // tiles have others
  p.rows_per_block = rows;
  p.slice_bytes = is_staged ? rows * row_bytes : 0;
  plan->threads = kLinkThreads;
  plan->dynamic_bytes = p.slice_bytes;
  plan->blocks = std::min(DivideUp(on_way, std::int64_t{rows} * row_bytes), DivideUp(p.rows, rows));
  return LinkKernelsFor(type).small[size][plan->skew ? 1 : 0][p.log ? 1 : 0];
}

const void* PlanLarge(DataType type, int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const int warp_chunks = std::min(4, static_cast<int>(DivideUp(p.chunks, kBlockWarps)));
  const auto warps = static_cast<int>(DivideUp(p.chunks, warp_chunks));
  const int warp_vectors = warp_chunks * kChunkSlots * 32 + kEdgeVectors;
  const int slice_bytes = warps * warp_vectors * kVectorBytes;
  const int dynamic_bytes = slice_bytes + 2 * p.chunks * (bytes == 8 ? 16 : 8);
  if (dynamic_bytes > device.shared_bytes - kMatrixTableBytes) return nullptr;
  p.warps = warps;
  p.warp_chunks = warp_chunks;
  p.warp_vectors = warp_vectors;
  p.slice_bytes = slice_bytes;
  plan->threads = 32 * warps;
  plan->dynamic_bytes = dynamic_bytes;
  plan->blocks = std::min(p.rows, std::max(kLeastLargeBlocks, DivideUp(kLargeBytes, p.cols * bytes)));
  return LinkKernelsFor(type).large[plan->skew ? 1 : 0][p.log ? 1 : 0];
}

}  // namespace

const void* PlanLink(DataType type, const Device& device, bool shared, MatrixPlan* plan) {
  const auto bytes = static_cast<int>(SizeOf(type));
  MatrixParams& p = plan->params;
  if (plan->kind == MatrixKind::kNone || p.cols > LinkColumns(bytes)) return nullptr;
  const bool is_small = p.cols <= SmallColumns(bytes);
  const void* const kernel = is_small ? PlanSmall(type, bytes, shared, plan) : PlanLarge(type, bytes, device, plan);
  if (kernel == nullptr) return nullptr;
  p.cluster_blocks = 1;
  p.next_early = true;
  return kernel;
}

const LinkKernels& LinkKernelsFor(DataType type) {
  return OfType(type, Float32LinkKernels, Float16LinkKernels, BFloat16LinkKernels, Float64LinkKernels);
}

}  // namespace softmax::kernels::cuda
