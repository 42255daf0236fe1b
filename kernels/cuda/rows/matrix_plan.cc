#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/core/alignment.h"
#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/core/of_type.h"
#include "kernels/cuda/large_rows/wide_plan.h"
#include "kernels/cuda/rows/matrix.h"
#include "kernels/cuda/rows/mixed.h"
#include "kernels/cuda/small_rows/share.h"
#include "kernels/cuda/small_rows/tile.h"

namespace softmax::kernels::cuda {
namespace {

constexpr int kMaxWideChunks = 1 << 17;  // 256 MB
constexpr int kMostGapBytes = 64;        // between rows that are read together with what is between them

// Where the rows of a segment begin, as seen by 16-byte accesses.
struct Alignment {
  bool both = false;   // input and output rows begin on boundaries
  bool lines = false;  // input rows begin on 128-byte lines
  bool dense = false;  // rows follow each other without gaps, from a boundary on
  bool close = false;  // the same with gaps so small that they may be read
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
  const std::int64_t gap = s.input_stride - s.cols;
  const bool is_small = gap >= 0 && gap * bytes <= kMostGapBytes && s.output_stride >= s.cols;
  alignment.close = input == 0 && output == 0 && (one || is_small);
  return alignment;
}

int Log2Up(int value) {
  int log = 0;
  while ((1 << log) < value) ++log;
  return log;
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
void PlanNextEarly(int bytes, const Device& device, MatrixPlan* plan) {
  constexpr int kShortSlots = 5;
  MatrixParams& p = plan->params;
  const std::int64_t multiprocessors = device.multiprocessors;
  p.next_early =
      plan->blocks <= 2 * multiprocessors || plan->blocks > 6 * multiprocessors || (bytes == 2 && plan->slots > 2);
  if (p.next_early || !device.clusters || bytes == 8) return;
  const bool is_full =
      plan->blocks > (kOneWaveBlocks - 1) * multiprocessors && plan->blocks <= kOneWaveBlocks * multiprocessors;
  const bool has_several = plan->kind == MatrixKind::kSmall && plan->slots <= 2;
  const bool is_softmax = bytes == 4 && !p.log;
  const bool is_long = is_softmax && is_full && plan->slots > kShortSlots;
  const bool is_six = is_softmax && !plan->skew && plan->slots > 2 && plan->slots <= kShortSlots + 1 &&
                      plan->blocks > 5 * multiprocessors;
  if (has_several || is_long || is_six) return;
  p.next_early = true;
  if (is_full && plan->slots <= kShortSlots) plan->dynamic_bytes = LimitingBytes(kOneWaveBlocks, device);
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
  plan->kind = MatrixKind::kSmall;
  plan->slots = static_cast<int>(DivideUp(vectors, p.lanes));
  if (p.lanes == 32 && plan->slots > 1 && p.rows <= std::int64_t{2} * device.multiprocessors) {
    plan->kind = MatrixKind::kSplit;
    plan->threads = 32 * plan->slots;
    plan->blocks = p.rows;
    return;
  }
  plan->threads = SmallThreads(bytes, plan->slots, plan->skew, p.log);
  const int groups = plan->threads / p.lanes;
  plan->blocks = DivideUp(p.rows, groups);
  const auto are_within = [&](int each) { return plan->blocks <= std::int64_t{each} * device.multiprocessors; };
  const bool is_taken = !are_within(kOneWaveBlocks) && PlanShare(bytes, device, plan);
  if (!is_taken && are_within(MostSingleBlocks(plan->slots))) {
    plan->kind = MatrixKind::kSingle;
  } else if (!is_taken) {
    plan->blocks = DivideUp(p.rows, std::int64_t{groups} * SmallRows(plan->slots));
  }
  const bool has_three = plan->kind == MatrixKind::kSmall && plan->slots == kMostFewSlots;
  if (plan->kind == MatrixKind::kSingle || has_three) Spread(device, plan);
  PlanNextEarly(bytes, device, plan);
}

void PlanSmallRows(int bytes, bool dense, bool close, const Device& device, MatrixPlan* plan) {
  const bool is_tile = plan->skew ? close : dense && IsOddTile(plan->params, bytes, device);
  if (is_tile && PlanTile(bytes, device, plan)) return;
  if (dense && IsTiny(plan->params, bytes, plan->skew, device)) {
    PlanTiny(bytes, device, plan);
  } else {
    PlanSmall(bytes, device, plan);
  }
}

// Aligned rows of a few chunks are fastest with a warp for each of them, however few columns the last one holds. Not
// with fewer warps than the multiprocessors have places: the next launch would take the others early and come to lie
// unevenly. Log-softmax of more fp32 chunks was not measured.
bool TakesChunks(int bytes, const Device& device, const MatrixPlan& plan) {
  const MatrixParams& p = plan.params;
  if (bytes == 8 || plan.skew || p.cols % VectorElements(bytes) != 0) return false;
  constexpr int kPlaces = 48;  // warps that a multiprocessor holds
  const int most = p.log && bytes == 4 ? 10 : ChunkWarps(p.log);
  return p.chunks <= most && p.rows * p.chunks >= std::int64_t{kPlaces} * device.multiprocessors;
}

void PlanChunks(MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  plan->kind = MatrixKind::kChunk;
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

// Rows of few chunks side by side: two chunks a warp, and one more for a warp where the row's last is nearly empty.
void PlanSideSlices(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const std::int64_t last = p.cols - std::int64_t{p.chunks - 1} * ChunkColumns(bytes);
  const int full = last <= 32 * VectorElements(bytes) ? p.chunks - 1 : p.chunks;
  plan->kind = MatrixKind::kSlice;
  p.block_chunks = p.chunks;
  p.warp_chunks = static_cast<int>(DivideUp(p.chunks, DivideUp(full, 2)));
  p.warp_vectors = SliceVectors(p.warp_chunks, *plan);
  p.warps = static_cast<int>(DivideUp(p.chunks, p.warp_chunks));
  const int row_bytes = p.warps * p.warp_vectors * kVectorBytes + p.chunks * 2 * bytes;
  const int fits = (device.shared_bytes - kMatrixTableBytes) / row_bytes;
  p.rows_per_block = std::clamp(kBlockWarps / p.warps, 1, std::max(1, fits));
  p.slice_bytes = p.rows_per_block * p.warps * p.warp_vectors * kVectorBytes;
  plan->dynamic_bytes = p.rows_per_block * row_bytes;
  plan->threads = 32 * p.warps * p.rows_per_block;
  plan->blocks = DivideUp(p.rows, p.rows_per_block);
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
  plan->kind = MatrixKind::kFew;
  plan->threads = 32 * warps;
  plan->blocks = p.rows * blocks;
  p.cluster_blocks = cluster_blocks;
  p.warps = warps;
  p.table_rows = kTableCopies;
  return true;
}

// Plans large rows in registers: so many chunks in a block, `each` in a warp, and short rows side by side.
void PlanInRegisters(int chunks, int each, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  plan->kind = MatrixKind::kLarge;
  plan->slots = each * kChunkSlots;
  p.warps = static_cast<int>(DivideUp(chunks, each));
  p.rows_per_block = p.cluster_blocks == 1 ? std::max(1, kBlockWarps / p.warps) : 1;
  plan->threads = 32 * p.warps * p.rows_per_block;
  plan->blocks = DivideUp(p.rows, p.rows_per_block) * p.cluster_blocks;
}

void PlanLarge(DataType type, const Device& device, MatrixPlan* plan) {
  const auto bytes = static_cast<int>(SizeOf(type));
  MatrixParams& p = plan->params;
  if (PlanFew(bytes, device, plan) || PlanBulkPair(bytes, device, plan)) return;
  constexpr int kMostTwoParts = 30;  // chunks of 16-bit rows
  if (bytes == 2 && plan->skew && p.chunks <= kMostTwoParts && PlanBulkCluster(bytes, device, plan)) return;
  if (PlanBulk(bytes, device, plan)) return;
  const bool parts_first = bytes == 4;
  if (parts_first && PlanBulkCluster(bytes, device, plan)) return;
  if (PlanCluster(bytes, device, plan)) return;
  if (!parts_first && PlanBulkCluster(bytes, device, plan)) return;
  if (device.cluster_blocks == 1 && p.chunks > kMost) {
    PlanWide(type, device, plan);
    if (plan->kind != MatrixKind::kNone) return;
  }
  p.cluster_blocks = BlocksOfRow(p.chunks, p.rows, device);
  const auto chunks = static_cast<int>(DivideUp(p.chunks, p.cluster_blocks));
  if (chunks > kMost) return;
  // Doubles, whose arithmetic takes longest, need more bytes on their way than registers hold.
  const bool is_many = p.rows > std::int64_t{4} * device.multiprocessors;
  if (bytes == 8 && is_many && p.chunks <= 2 * kBlockWarps) {
    PlanSideSlices(bytes, device, plan);
    return;
  }
  if (chunks > (plan->skew ? 1 : 2) * kBlockWarps) {
    plan->kind = MatrixKind::kSlice;
    p.rows_per_block = 1;
    p.block_chunks = chunks;
    // Doubles in pairs of chunks where one warp more than a block's usual ones is enough for that, and aligned ones
    // where the largest block is.
    const int most_pairs = plan->skew ? 2 * kBlockWarps + 2 : 2 * kWideThreads / 32;
    const bool in_pairs = bytes == 8 && chunks <= most_pairs;
    p.warp_chunks = in_pairs ? 2 : std::min(4, static_cast<int>(DivideUp(chunks, kBlockWarps)));
    p.warp_vectors = SliceVectors(p.warp_chunks, *plan);
    const auto warps = static_cast<int>(DivideUp(chunks, p.warp_chunks));
    plan->threads = 32 * warps;
    plan->blocks = p.rows * p.cluster_blocks;
    const int missing = warps * p.warp_chunks - chunks;  // of the last warp
    p.slice_bytes = warps * p.warp_vectors * kVectorBytes - missing * kChunkBytes;
    plan->dynamic_bytes = p.slice_bytes + p.chunks * (bytes == 8 ? 16 : 8);
    if (p.cluster_blocks == 1) plan->dynamic_bytes = SliceBytes(plan->dynamic_bytes, plan->blocks, device);
    if (plan->dynamic_bytes > device.shared_bytes - kMatrixTableBytes) plan->kind = MatrixKind::kNone;
    return;
  }
  // A warp for each chunk where there are few rows.
  const bool is_few = p.rows * p.cluster_blocks <= std::int64_t{4} * device.multiprocessors;
  PlanInRegisters(chunks, chunks <= kBlockWarps || is_few ? 1 : 2, plan);
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
  PlanInRegisters(warps, 1, plan);
  return true;
}

// Rows of up to a chunk whose results are of another type.
void PlanSmallMixed(int bytes, bool dense, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  if (dense && plan->skew) {
    if (PlanTile(bytes, device, plan)) return;
    const auto vectors = static_cast<int>(DivideUp(p.cols, VectorElements(bytes)));
    const bool has_tiny =
        !HasNarrow(p.cols, bytes) && (bytes == 2 ? vectors <= kMixedTinyVectors : HasTinyKernel(vectors, bytes));
    if (has_tiny && IsTiny(p, bytes, true, device)) {
      PlanTiny(bytes, device, plan);
      return;
    }
  }
  plan->kind = MatrixKind::kSmall;
  plan->slots = static_cast<int>(DivideUp(DivideUp(p.cols, VectorElements(bytes)), p.lanes));
  plan->threads = SmallThreads(bytes, plan->slots, plan->skew, p.log);
  plan->blocks = DivideUp(p.rows, plan->threads / p.lanes);
  if (plan->slots <= kMostFewSlots) Spread(device, plan);
}

// Rows whose results are of another type, few or many: parts and bulk copies take what chunks do not.
void PlanMixed(DataType type, bool dense, const Device& device, MatrixPlan* plan) {
  const auto bytes = static_cast<int>(SizeOf(type));
  MatrixParams& p = plan->params;
  if (p.chunks > kFlatChunks || (bytes == 8 && p.chunks == 0)) return;
  if (p.chunks == 0) {
    PlanSmallMixed(bytes, dense, device, plan);
    return;
  }
  // From registers lanes would store 64 bytes apart.
  const bool is_spread = static_cast<int>(SizeOf(p.output_type)) > 2 * bytes;
  if (!is_spread && TakesChunks(bytes, device, *plan)) {
    PlanChunks(plan);
    return;
  }
  if (!is_spread && PlanFew(bytes, device, plan)) return;
  if (PlanFewMixed(bytes, device, plan) || PlanBulkCluster(bytes, device, plan)) return;
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
  // From 400 columns on some were slower with that; fewer than 256 were not measured.
  const bool has_gaps = s.outer > 1 && s.output_stride != s.cols;
  p.fetches_ends = has_gaps && s.cols >= 256 && s.cols <= 320;
  p.chunks = s.cols <= SmallColumns(bytes)
                 ? 0
                 : static_cast<int>(std::min<std::int64_t>(DivideUp(s.cols, ChunkColumns(bytes)), kMaxWideChunks + 1));
  if (plan.mixed) {
    PlanMixed(type, alignment.dense, device, &plan);
  } else if (p.chunks == 0) {
    PlanSmallRows(bytes, alignment.dense, alignment.close, device, &plan);
  } else if (p.chunks <= kFlatChunks) {
    if (TakesChunks(bytes, device, plan)) {
      PlanChunks(&plan);
    } else {
      PlanLarge(type, device, &plan);
    }
  } else if (p.chunks <= kMaxWideChunks) {
    PlanWide(type, device, &plan);
  }
  if (plan.blocks > std::numeric_limits<int>::max()) plan.kind = MatrixKind::kNone;
  return plan;
}

void PlanAhead(DataType type, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  // Where a launch lets no other come early, launches like it gain nothing. Parts of rows off the boundaries lost, and
  // those of the largest clusters.
  const bool is_part = plan->kind == MatrixKind::kBulk && p.cluster_blocks > (plan->skew ? 1 : kMaxClusterBlocks);
  if (!device.clusters || plan->kind == MatrixKind::kWide || !p.next_early || is_part) return;
  const std::int64_t elements = p.rows * p.cols;
  if (p.elements > elements + elements / 8) return;  // gaps are not worth reading
  const std::int64_t share = p.elements * static_cast<std::int64_t>(SizeOf(type)) / plan->blocks;
  p.ahead_bytes = static_cast<int>(share / kVectorBytes * kVectorBytes);
}

const void* MatrixKernelOf(DataType type, const MatrixPlan& plan) {
  if (plan.mixed) return MixedKernelOf(type, plan);
  const MatrixKernels& kernels = MatrixKernelsFor(type);
  const int skew = plan.skew ? 1 : 0;
  const int log = plan.params.log ? 1 : 0;
  switch (plan.kind) {
    case MatrixKind::kTiny:
      return TinyKernelOf(type, plan);
    case MatrixKind::kSmall:
      return kernels.small[plan.slots - 1][skew][log];
    case MatrixKind::kShare:
      return ShareKernelsFor(type).share[plan.slots - kLeastShareVectors][log];
    case MatrixKind::kSingle:
      return kernels.single[plan.slots - 1][skew][log];
    case MatrixKind::kSplit:
      return kernels.split[skew][log];
    case MatrixKind::kChunk:
      return plan.params.cluster_blocks > 1 ? TileKernelsFor(type).cluster[log] : kernels.chunk[log];
    case MatrixKind::kFew:
      return kernels.few[plan.params.cluster_blocks == 1 ? 1 : 0][log];
    case MatrixKind::kLarge:
      return kernels.large[Log2Up(plan.slots) - 2][skew][log];
    case MatrixKind::kSlice:
      return kernels.slice[skew][log];
    case MatrixKind::kWide:
      return WideKernelOf(type, plan);
    case MatrixKind::kBulk:
      return BulkKernelOf(type, plan);
    case MatrixKind::kNone:
      break;
  }
  return nullptr;
}

const MatrixKernels& MatrixKernelsFor(DataType type) {
  return OfType(type, Float32MatrixKernels, Float16MatrixKernels, BFloat16MatrixKernels, Float64MatrixKernels);
}

}  // namespace softmax::kernels::cuda
