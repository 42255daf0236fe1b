#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/core/work.h"
#include "kernels/cuda/large_rows/bulk.h"
#include "kernels/cuda/rows/matrix.h"
#include "kernels/cuda/small_rows/tile.h"

namespace softmax::kernels::cuda {
namespace {

constexpr int kMaxWideChunks = 1 << 17;  // 256 MB

// Where the rows of a segment begin, as seen by 16-byte accesses.
struct Alignment {
  bool both = false;   // input and output rows begin on boundaries
  bool lines = false;  // input rows begin on 128-byte lines
  bool dense = false;  // rows follow each other without gaps, from a boundary on
};

Alignment AlignmentOf(const Segment& s, int bytes, int output_bytes) {
  const auto input = reinterpret_cast<std::uintptr_t>(s.input) % kVectorBytes;
  const auto output = reinterpret_cast<std::uintptr_t>(s.output) % kVectorBytes;
  const bool one = s.outer == 1;
  const auto input_step = one ? 0 : s.input_stride * bytes % kVectorBytes;
  const auto output_step = one ? 0 : s.output_stride * output_bytes % kVectorBytes;
  Alignment alignment;
  alignment.both = input == 0 && output == 0 && input_step == 0 && output_step == 0;
  constexpr int kLineBytes = kEdgeVectors * kVectorBytes;
  alignment.lines =
      reinterpret_cast<std::uintptr_t>(s.input) % kLineBytes == 0 && (one || s.input_stride * bytes % kLineBytes == 0);
  alignment.dense = input == 0 && output == 0 && (one || (s.input_stride == s.cols && s.output_stride == s.cols));
  return alignment;
}

// Shared memory of which a multiprocessor has enough for so many blocks and no more. The system takes 1 KB of each.
int LimitingBytes(int blocks, const Device& device) {
  constexpr int kSystemBytes = 1024;
  return ((device.shared_bytes + kSystemBytes) / blocks - kSystemBytes) / kVectorBytes * kVectorBytes;
}

// Whether the next launch may take its places early. Then its input is on its way while this one ends (AskAhead()). But
// where a launch puts several blocks on each multiprocessor at once, the next one's come to lie unevenly if they take
// the places that are left beside them. That costs more where groups take several rows, and with some fp32 softmax:
// long rows that fill one wave, and aligned ones of which a multiprocessor holds just six blocks. Rows that fill one
// wave are kept from more places than they have by the shared memory that they ask for, if their registers leave them
// that many; 16-bit ones of three slots and more need the registers.
void PlanNextEarly(int bytes, int slots, const Device& device, MatrixPlan* plan) {
  constexpr int kShortSlots = 5;
  MatrixParams& p = plan->params;
  const std::int64_t multiprocessors = device.multiprocessors;
  p.next_early = plan->blocks <= 2 * multiprocessors || plan->blocks > 6 * multiprocessors || (bytes == 2 && slots > 2);
  if (p.next_early || !device.clusters || bytes == 8) return;
  const bool is_full =
      plan->blocks > (kOneWaveBlocks - 1) * multiprocessors && plan->blocks <= kOneWaveBlocks * multiprocessors;
  const bool has_several = plan->room == Room::kSmall && slots <= 2 && !plan->skew;
  const bool is_softmax = bytes == 4 && !p.log;
  const bool is_long = is_softmax && is_full && slots > kShortSlots;
  const bool is_six =
      is_softmax && !plan->skew && slots > 2 && slots <= kShortSlots + 1 && plan->blocks > 5 * multiprocessors;
  if (has_several || is_long || is_six) return;
  p.next_early = true;
  if (is_full && slots <= kShortSlots) plan->dynamic_bytes = LimitingBytes(kOneWaveBlocks, device);
}

// Few small rows go to as many multiprocessors as there are, in blocks of as few warps as that takes: the warps of a
// block wait for each other's loads and stores.
void Spread(const Device& device, MatrixPlan* plan) {
  const MatrixParams& p = plan->params;
  const auto blocks = [&](int threads) { return DivideUp(p.rows, threads / p.lanes); };
  if (blocks(plan->threads) > device.multiprocessors) return;
  while (plan->threads > 32 && blocks(plan->threads / 2) <= device.multiprocessors) plan->threads /= 2;
  plan->blocks = blocks(plan->threads);
}

void PlanSmall(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const auto vectors = static_cast<int>(DivideUp(p.cols, VectorElements(bytes)));
  plan->room = Room::kSmall;
  const auto slots = static_cast<int>(DivideUp(vectors, p.lanes));
  plan->size = SmallSize(slots);
  if (bytes < 8 && p.lanes == 32 && slots > 1 && p.rows <= std::int64_t{2} * device.multiprocessors) {
    plan->room = Room::kSplit;
    plan->size = 0;
    plan->threads = 32 * slots;
    plan->blocks = p.rows;
    return;
  }
  plan->threads = SmallThreads(bytes, plan->size, plan->skew, p.log);
  const int groups = plan->threads / p.lanes;
  plan->blocks = DivideUp(p.rows, groups);
  int each = SmallRows(plan->size, plan->skew);
  if (each > 1 && bytes < 8 && plan->blocks <= std::int64_t{MostSingleBlocks(slots)} * device.multiprocessors) {
    plan->room = Room::kSingle;
    each = 1;
  }
  plan->blocks = DivideUp(p.rows, std::int64_t{groups} * each);
  if (each == 1 && plan->size <= kMostFewSlots) Spread(device, plan);
  PlanNextEarly(bytes, slots, device, plan);
}

// Aligned rows of a few chunks are fastest with a warp for each of them, however few columns the last one holds. Not
// with fewer warps than the multiprocessors have places: the next launch would take the others early and come to lie
// unevenly. Log-softmax of more fp32 chunks was not measured.
bool TakesChunks(int bytes, const Device& device, const MatrixPlan& plan) {
  const MatrixParams& p = plan.params;
  if (bytes == 8 || plan.skew || p.cols % VectorElements(bytes) != 0) return false;
  constexpr int kPlaces = 48;  // warps that a multiprocessor holds
  const int most = p.log && bytes == 4 ? 10 : ChunkWarps(p.log || plan.mixed);
  return p.chunks <= most && p.rows * p.chunks >= std::int64_t{kPlaces} * device.multiprocessors;
}

void PlanChunks(MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  plan->room = Room::kChunk;
  p.warps = p.chunks;
  p.rows_per_block = std::max(1, kBlockWarps / p.warps);
  plan->threads = 32 * p.warps * p.rows_per_block;
  plan->blocks = DivideUp(p.rows, p.rows_per_block);
}

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
  const auto fits = [&](std::int64_t a_multiprocessor) {
    return blocks * 2 <= most && rows * blocks * 2 <= a_multiprocessor * device.multiprocessors;
  };
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

// Plans few aligned rows of whole vectors, of several blocks each. A single row so wide that a cluster's
// multiprocessors would be long at its bytes has a grid; more of its blocks would be in each other's way at the table.
bool PlanFew(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  if (bytes == 8 || plan->skew || p.cols % VectorElements(bytes) != 0) return false;
  constexpr int kClusterChunks = 192;
  constexpr int kTableCopies = 2;
  const int grid_blocks = p.chunks > 32 * kBlockWarps ? 64 : 32;
  const bool is_grid = p.rows == 1 && p.chunks > kClusterChunks && p.completion.workspace != nullptr &&
                       grid_blocks <= device.multiprocessors;
  const int cluster_blocks = is_grid ? 1 : BlocksOfRow(p.chunks, p.rows, device);
  const int blocks = is_grid ? grid_blocks : cluster_blocks;
  const auto warps = static_cast<int>(DivideUp(p.chunks, blocks));
  const int most_threads = is_grid ? kMatrixThreads : kWideThreads;
  if (blocks == 1 || p.rows * blocks > std::int64_t{2} * device.multiprocessors || 32 * warps > most_threads) {
    return false;
  }
  plan->room = Room::kFew;
  plan->size = is_grid ? 1 : 0;
  plan->threads = 32 * warps;
  plan->blocks = p.rows * blocks;
  p.cluster_blocks = cluster_blocks;
  p.warps = warps;
  p.table_rows = kTableCopies;
  return true;
}

// Plans large rows in registers: so many chunks in a block, one in a warp, and short rows side by side.
void PlanInRegisters(int chunks, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  plan->room = Room::kLarge;
  p.warps = chunks;
  p.rows_per_block = p.cluster_blocks == 1 ? std::max(1, kBlockWarps / p.warps) : 1;
  plan->threads = 32 * p.warps * p.rows_per_block;
  plan->blocks = DivideUp(p.rows, p.rows_per_block) * p.cluster_blocks;
}

void PlanLarge(DataType type, const Device& device, MatrixPlan* plan) {
  const auto bytes = static_cast<int>(SizeOf(type));
  MatrixParams& p = plan->params;
  if (PlanFew(bytes, device, plan)) return;
  constexpr int kMostTwoParts = 30;  // chunks of 16-bit rows
  if (bytes == 2 && plan->skew && p.chunks <= kMostTwoParts && PlanParts(bytes, device, plan)) return;
  if (PlanBulk(bytes, device, plan)) return;
  const bool parts_first = bytes == 4;
  if (parts_first && PlanParts(bytes, device, plan)) return;
  if (PlanCluster(bytes, device, plan)) return;
  if (!parts_first && PlanParts(bytes, device, plan)) return;
  if (device.cluster_blocks == 1 && p.chunks > kMost) {
    PlanWide(type, device, plan);
    if (plan->room != Room::kNone) return;
  }
  p.cluster_blocks = BlocksOfRow(p.chunks, p.rows, device);
  const auto chunks = static_cast<int>(DivideUp(p.chunks, p.cluster_blocks));
  if (chunks > kMost) return;
  if (bytes == 8 || chunks > (plan->skew ? 1 : 2) * kBlockWarps) {
    plan->room = Room::kSlice;
    p.rows_per_block = 1;
    p.block_chunks = chunks;
    p.warp_chunks = std::min(4, static_cast<int>(DivideUp(chunks, kBlockWarps)));
    p.warp_vectors = SliceVectors(p.warp_chunks, *plan);
    const auto warps = static_cast<int>(DivideUp(chunks, p.warp_chunks));
    plan->threads = 32 * warps;
    plan->blocks = p.rows * p.cluster_blocks;
    const int missing = warps * p.warp_chunks - chunks;  // of the last warp
    p.slice_bytes = warps * p.warp_vectors * kVectorBytes - missing * kChunkBytes;
    plan->dynamic_bytes = p.slice_bytes + p.chunks * (bytes == 8 ? 16 : 8);
    if (p.cluster_blocks == 1) plan->dynamic_bytes = SliceBytes(plan->dynamic_bytes, plan->blocks, device);
    if (plan->dynamic_bytes > device.shared_bytes - kMatrixTableBytes) plan->room = Room::kNone;
    return;
  }
  PlanInRegisters(chunks, plan);
}

// Plans few rows whose results are of another type, a warp for each chunk.
bool PlanFewMixed(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const int cluster_blocks = BlocksOfRow(p.chunks, p.rows, device);
  const auto warps = static_cast<int>(DivideUp(p.chunks, cluster_blocks));
  constexpr int kPlaces = 16;  // more warps on a multiprocessor were slower than bulk copies
  const bool is_few = p.rows * p.chunks <= std::int64_t{kPlaces} * device.multiprocessors;
  if (bytes == 8 || !is_few || 32 * warps > kWideThreads) return false;
  p.cluster_blocks = cluster_blocks;
  PlanInRegisters(warps, plan);
  return true;
}

// Rows of up to a chunk whose results are of another type: a row a group.
void PlanSmallMixed(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const auto slots = static_cast<int>(DivideUp(DivideUp(p.cols, VectorElements(bytes)), p.lanes));
  plan->room = Room::kSmall;
  plan->size = SmallSize(slots);
  plan->threads = SmallThreads(bytes, plan->size, plan->skew, p.log);
  plan->blocks = DivideUp(p.rows, plan->threads / p.lanes);
  if (plan->size <= kMostFewSlots) Spread(device, plan);
}

// Rows whose results are of another type, few or many: parts and bulk copies take what chunks do not.
void PlanMixed(DataType type, const Device& device, MatrixPlan* plan) {
  const auto bytes = static_cast<int>(SizeOf(type));
  MatrixParams& p = plan->params;
  if (p.chunks > kFlatChunks) return;
  // From registers lanes would store 64 bytes apart.
  const bool is_spread = static_cast<int>(SizeOf(p.output_type)) > 2 * bytes;
  if (!is_spread && TakesChunks(bytes, device, *plan)) {
    PlanChunks(plan);
    return;
  }
  if (!is_spread && PlanFew(bytes, device, plan)) return;
  if (PlanFewMixed(bytes, device, plan) || PlanParts(bytes, device, plan)) return;
  PlanBulk(bytes, device, plan);
}

}  // namespace

MatrixPlan PlanMatrix(DataType type, DataType output_type, const Segment& s, const Completion& completion,
                      const Device& device) {
  MatrixPlan plan;
  if (s.inner != 1) return plan;
  const auto bytes = static_cast<int>(SizeOf(type));
  const auto output_bytes = static_cast<int>(SizeOf(output_type));
  if (!AreAlike(s, bytes, output_bytes)) return plan;
  const Alignment alignment = AlignmentOf(s, bytes, output_bytes);
  MatrixParams& p = plan.params;
  p = {};
  p.input = s.input;
  p.output = s.output;
  p.output_type = output_type;
  p.lengths = s.lengths;
  p.rows = s.outer;
  p.cols = s.cols;
  p.input_stride = s.outer == 1 ? s.cols : s.input_stride;
  p.output_stride = s.outer == 1 ? s.cols : s.output_stride;
  p.elements = (s.outer - 1) * p.input_stride + s.cols;
  p.scale_double = ScaleParts<double>::Of(s.scale);
  p.scale_float = ScaleParts<float>::Of(s.scale);
  p.log = s.operation == Operation::kLogSoftmax;
  // These kernels have the fast form of the exponential only.
  if (type != DataType::kFloat64 && p.scale_float.fast == 0) return plan;
  p.next_early = true;
  p.completion = completion;
  p.lanes = RowLanes(s.cols, bytes);
  p.cluster_blocks = 1;
  plan.mixed = output_type != type;
  plan.skew = !alignment.both;
  plan.lines = alignment.lines;
  p.chunks = s.cols <= SmallColumns(bytes)
                 ? 0
                 : static_cast<int>(std::min<std::int64_t>(DivideUp(s.cols, ChunkColumns(bytes)), kMaxWideChunks + 1));
  if (p.chunks == 0) {
    if (plan.mixed && bytes == 8) return plan;
    if (alignment.dense && plan.skew && PlanTile(bytes, device, &plan)) return plan;
    if (plan.mixed) {
      PlanSmallMixed(bytes, device, &plan);
    } else {
      PlanSmall(bytes, device, &plan);
    }
  } else if (plan.mixed) {
    PlanMixed(type, device, &plan);
  } else if (p.chunks <= kFlatChunks) {
    if (TakesChunks(bytes, device, plan)) {
      PlanChunks(&plan);
    } else {
      PlanLarge(type, device, &plan);
    }
  } else if (p.chunks <= kMaxWideChunks) {
    PlanWide(type, device, &plan);
  }
  if (plan.blocks > std::numeric_limits<int>::max()) plan.room = Room::kNone;
  return plan;
}

void PlanAhead(DataType type, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  // Where a launch lets no other come early, launches like it gain nothing. Parts of rows off the boundaries lost, and
  // those of the largest clusters.
  const bool is_part = plan->room == Room::kParts && p.cluster_blocks > (plan->skew ? 1 : kMaxClusterBlocks);
  if (!device.clusters || plan->room == Room::kWide || !p.next_early || is_part) return;
  const std::int64_t elements = p.rows * p.cols;
  if (p.elements > elements + elements / 8) return;  // gaps are not worth reading
  const std::int64_t share = p.elements * static_cast<std::int64_t>(SizeOf(type)) / plan->blocks;
  p.ahead_bytes = static_cast<int>(share / kVectorBytes * kVectorBytes);
}

}  // namespace softmax::kernels::cuda
