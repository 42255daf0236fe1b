#include <algorithm>

#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/core/of_type.h"
#include "kernels/cuda/small_rows/tile.h"

namespace softmax::kernels::cuda {
namespace {

constexpr int kTileRows = 2048;

// Bytes from one row of a tile to the next: see TilePlace.
int TinyPitch(int cols, int bytes) {
  const bool is_padded = !HasNarrow(cols, bytes) && cols * bytes % (2 * kVectorBytes) == 0;
  return cols * bytes + (is_padded ? kVectorBytes : 0);
}

// Rows of a tile of a tensor that leaves multiprocessors with few: each multiprocessor has one tile, or up to eight
// with a row a thread and then more rows, as blocks that stand alone wait for their memory. As measured on an H200.
std::int64_t FewTileRows(std::int64_t rows, int cols, int bytes, const Device& device) {
  constexpr std::int64_t kTiles = 8;
  const std::int64_t share = DivideUp(rows, device.multiprocessors);
  if (HasNarrow(cols, bytes)) return share <= 2 * kMatrixThreads ? kMatrixThreads : share;
  const std::int64_t least = bytes == 2 ? 100 : 160;  // that tiles of a row a thread are faster with
  if (share < least) return std::max<std::int64_t>(32, share);
  return kMatrixThreads * DivideUp(share, kTiles * kMatrixThreads);
}

// Rows of a tile: as many for each thread, so that about six tiles fill the shared memory, and fewer of small tensors.
int TinyTileRows(std::int64_t rows, int cols, int bytes, int number_bytes, const Device& device) {
  const int row_bytes = TinyPitch(cols, bytes) + number_bytes;
  const int fits = (device.shared_bytes - kMatrixTableBytes) / row_bytes;
  const int each = device.shared_bytes / 6 / row_bytes + kMatrixThreads / 2;
  const int wanted = HasNarrow(cols, bytes) ? kMatrixThreads * BoundaryStep(cols, bytes) * NarrowEach(cols, bytes)
                                            : std::min(kTileRows, each / kMatrixThreads * kMatrixThreads);
  const std::int64_t few = FewTileRows(rows, cols, bytes, device);
  return static_cast<int>(std::min<std::int64_t>({std::max(kMatrixThreads, wanted), fits, few}));
}

// Bytes of a row's results where they are kept as numbers beside the row: see TinyMatrixKernel.
int NumberBytes(int bytes, const MatrixPlan& plan) {
  return plan.mixed && bytes == 2 ? static_cast<int>(plan.params.cols * sizeof(float)) : 0;
}

void SetTiles(int rows, int pitch, int number_bytes, MatrixPlan* plan) {
  const auto vectors = [rows](int row_bytes) { return static_cast<int>(DivideUp(rows * row_bytes, kVectorBytes)); };
  MatrixParams& p = plan->params;
  p.rows_per_block = rows;
  plan->kind = MatrixKind::kTiny;
  plan->dynamic_bytes = (vectors(pitch) + vectors(number_bytes)) * kVectorBytes;
  plan->blocks = DivideUp(p.rows, rows);
}

// How often each thread of a tile has a row, `threads` to a row: once, or twice where the blocks that a multiprocessor
// holds would otherwise have too little on their way, and with fast memory even more often of 16 bits, as their blocks
// take longer for the same bytes. As measured, with either memory.
int TileRounds(int bytes, int vectors, int threads, bool log, int round_bytes, const Device& device) {
  if (bytes == 2 && device.fast_memory) {
    const int tiles = vectors > 4 ? 4 : 6;
    return std::max(1, (device.shared_bytes / tiles + round_bytes / 2) / round_bytes);
  }
  if (bytes == 2) {
    constexpr int kLargeRound = 21 * 1024 + 512;
    return vectors < 6 || round_bytes < kLargeRound ? 2 : 1;
  }
  constexpr int kSmallRound = 13 * 1024;
  if (log && !device.fast_memory) return threads >= 8 && round_bytes < kSmallRound ? 2 : 1;
  if (log) return vectors <= 6 ? 2 : 1;
  const bool is_usual = threads == 8 || threads == 16;
  return device.fast_memory && round_bytes <= (is_usual ? 18 : 23) * 1024 ? 2 : 1;
}

// Whether blocks, or warps, fill the places that each multiprocessor has for them.
bool FillPlaces(std::int64_t count, int places, const Device& device) {
  return count >= std::int64_t{places} * device.multiprocessors;
}

// Columns up to which tiles are faster than lanes where results are of another type. As measured on an H100.
std::int64_t MostMixedTileColumns(int bytes, bool log) { return bytes == 2 ? 640 : log ? SmallColumns(4) : 400; }

// Tiles of one row a group, for each two multiprocessors, that are enough: with fewer, lanes are faster. `vectors`: of
// a thread. As measured on an H200; of aligned rows fewer were not.
int LeastTiles(int bytes, int vectors, std::int64_t cols, bool skew, bool mixed) {
  constexpr std::int64_t kFewColumns = 256;
  constexpr std::int64_t kSlowColumns = 320;  // lanes with three vectors are slow up to here; those of 16 bits all are
  if (!skew) return 4;
  if (bytes == 2) return cols <= kSlowColumns ? (mixed ? 2 : 1) : mixed ? 8 : 4;
  if (vectors == 5 && cols <= kSlowColumns) return cols > kFewColumns ? 8 : mixed ? 4 : 2;
  return cols > kFewColumns ? 16 : vectors > 5 || mixed ? 8 : 4;
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

// Whether aligned fp32 rows go in parts: those of so many chunks that a cluster with a warp for each leaves places of
// the multiprocessors empty. Not those that begin on lines and nearly fill them. Log-softmax of so few chunks that the
// largest cluster would take too few with each block has none with a warp for each.
bool TakesParts(const MatrixParams& p, bool lines) {
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

// Whether there are so few rows that a thread for each takes longer than several lanes, since the launch lasts as long
// as one row does. Up to so many rows, as measured.
bool AreFewForThreads(const MatrixParams& p, int bytes, int vectors, bool skew) {
  if (bytes == 8) return false;
  const bool is_float_log = bytes == 4 && p.log;  // it takes the longest
  const int least_vectors = !skew || bytes == 2 ? 3 : is_float_log ? 5 : 7;
  if (vectors < least_vectors) return false;
  const bool is_wide = bytes == 4 && vectors > 10;
  if (!skew) return p.rows <= (is_wide ? 65536 : 16384);
  return p.rows <= (is_float_log ? 32768 : is_wide ? 16384 : 4096);
}

// Whether aligned rows of so many vectors, an even number, are faster as tiles in large tensors than by lanes. As
// measured, with either memory.
bool IsEvenTiny(int vectors, int bytes, bool log, const Device& device) {
  if (device.fast_memory) {
    if (bytes == 2) return vectors <= 6;
    return log ? vectors >= 4 && vectors <= 10 : vectors == 6;
  }
  if (bytes == 2) return vectors == 6 || (log && vectors == 4);
  return log && (vectors == 6 || vectors == 10);
}

}  // namespace

bool FillsShared(const MatrixParams& p, int bytes, int halves, const Device& device) {
  return 2 * p.rows * DivideUp(p.cols, VectorElements(bytes)) * kVectorBytes >
         std::int64_t{halves} * device.shared_bytes * device.multiprocessors;
}

bool IsTiny(const MatrixParams& p, int bytes, bool skew, const Device& device) {
  const auto vectors = static_cast<int>(DivideUp(p.cols, VectorElements(bytes)));
  if (AreFewForThreads(p, bytes, vectors, skew)) return false;
  if (skew) return vectors <= TinyVectors(bytes);
  if (bytes > 4) return false;
  if (vectors == 1) return bytes == 2 || p.log;
  if (vectors % 2 != 0) return vectors <= (bytes == 2 ? 5 : 11);
  const std::int64_t all = p.rows * TinyPitch(static_cast<int>(p.cols), bytes);
  if (all < std::int64_t{device.shared_bytes} * device.multiprocessors) return false;
  return IsEvenTiny(vectors, bytes, p.log, device);
}

bool IsOddTile(const MatrixParams& p, int bytes, const Device& device) {
  const std::int64_t vectors = DivideUp(p.cols, VectorElements(bytes));
  if (bytes == 2) return vectors == 7 || (vectors == 9 && FillsShared(p, bytes, 4, device));
  if (bytes != 4) return false;
  if (vectors == 10) return !p.log || !FillsShared(p, bytes, 2, device);
  return vectors == 12 || (vectors == 14 && p.log && FillsShared(p, bytes, 1, device));
}

int TileShare(std::int64_t cols, int bytes) {
  if (bytes > 4 || cols < LeastTileColumns(bytes) || cols > MostTileColumns(bytes)) return 0;
  const int lanes = RowLanes(cols, bytes);
  const auto vectors = static_cast<int>(DivideUp(cols, VectorElements(bytes)));
  for (int share = 2; share > 0; --share) {
    const auto slots = static_cast<int>(DivideUp(vectors, lanes / share));
    if (slots <= kMostTileVectors && HasTile(bytes, slots, share)) return share;
  }
  return 0;
}

void PlanTiny(int bytes, const Device& device, MatrixPlan* plan) {
  const MatrixParams& p = plan->params;
  const int cols = static_cast<int>(p.cols);
  const int step = BoundaryStep(cols, bytes);
  const int number_bytes = NumberBytes(bytes, *plan);
  const int wanted = std::max(step, TinyTileRows(p.rows, cols, bytes, number_bytes, device) / step * step);
  // Narrow rows are computed, though not moved, as whole vectors.
  const bool is_narrow = HasNarrow(cols, bytes);
  SetTiles(is_narrow ? wanted : static_cast<int>(std::min<std::int64_t>(p.rows, wanted)), TinyPitch(cols, bytes),
           number_bytes, plan);
  // As NarrowRows::Suits() has it: without the shared memory the kernel must not take its other form.
  const bool is_plain = bytes == 4 || !p.log || p.scale_float.plain != 0;
  if (is_narrow && step * cols * bytes == kVectorBytes && p.lengths == nullptr && is_plain) plan->dynamic_bytes = 0;
}

bool PlanTile(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  const int share = TileShare(p.cols, bytes);
  // fp32 log-softmax of more columns is faster with lanes, which hold half as much, or bulk copies.
  constexpr std::int64_t kMostLogColumns = 512;
  constexpr std::int64_t kLeastLogColumns = 47;  // in large tensors
  constexpr std::int64_t kLeastColumns = 38;     // softmax, in tensors several times as large
  const bool is_float_log = bytes == 4 && p.log;
  if (share == 0 || (is_float_log && p.cols > kMostLogColumns)) return false;
  if (is_float_log && p.cols < kLeastLogColumns && plan->skew && FillsShared(p, bytes, 1, device)) return false;
  const bool is_float = bytes == 4 && !p.log;
  if (plan->mixed && p.cols > MostMixedTileColumns(bytes, p.log)) return false;
  if (is_float && p.cols < kLeastColumns && !device.fast_memory && FillsShared(p, bytes, 4, device)) return false;
  const int threads = p.lanes / share;
  const int groups = kMatrixThreads / threads;
  const int pitch = static_cast<int>(p.input_stride) * bytes;
  const int number_bytes = NumberBytes(bytes, *plan);
  const auto vectors = static_cast<int>(DivideUp(DivideUp(p.cols, VectorElements(bytes)), threads));
  const int most = number_bytes > 0 ? 1 : TileRounds(bytes, vectors, threads, p.log, groups * pitch, device);
  const std::int64_t tiles = 2 * p.rows / groups / device.multiprocessors;
  if (tiles < LeastTiles(bytes, vectors, p.cols, plan->skew, plan->mixed)) return false;
  p.lanes = threads;
  plan->slots = vectors;
  constexpr std::int64_t kFullTiles = 8;  // before tiles grow: four for each multiprocessor
  const int rows = groups * static_cast<int>(std::clamp<std::int64_t>(tiles / kFullTiles, 1, most));
  SetTiles(rows, pitch, number_bytes, plan);
  if (p.fetches_ends) plan->dynamic_bytes += kVectorBytes;  // what FetchEnd() reads
  return true;
}

bool PlanBulkPair(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  constexpr int kPlaces = 40;
  constexpr int kMostColumns = kBulkPairSlots * 32 * VectorElements(2);
  if (!device.clusters || !plan->skew || bytes != 2 || p.cols > kMostColumns) return false;
  if (!FillPlaces(p.rows, kPlaces, device)) return false;
  plan->kind = MatrixKind::kBulk;
  plan->slots = kBulkPairSlots;
  plan->threads = 32 * kBulkPairWarps;
  plan->blocks = DivideUp(p.rows, kBulkPairWarps);
  plan->dynamic_bytes = kBulkPairWarps * kBulkPairVectors * kVectorBytes;
  return true;
}

bool PlanCluster(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  if (device.cluster_blocks == 1 || bytes == 8 || plan->skew || p.cols % VectorElements(bytes) != 0) return false;
  constexpr int kPlaces = 40;
  if (p.chunks <= 2 * kBlockWarps || !FillPlaces(p.rows * p.chunks, kPlaces, device)) return false;
  const int warps = WarpsOfCluster(bytes, p, device);
  if (warps == 0) return false;
  p.warps = warps;
  p.cluster_blocks = static_cast<int>(DivideUp(p.chunks, warps));
  plan->kind = MatrixKind::kChunk;
  plan->threads = 32 * warps;
  plan->blocks = p.rows * p.cluster_blocks;
  return true;
}

bool PlanBulkCluster(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  if (device.cluster_blocks == 1 || bytes == 8) return false;
  if (bytes == 4 && !plan->skew && !plan->mixed && !TakesParts(p, plan->lines)) return false;
  const bool skew = plan->skew || bytes == 4 || plan->mixed;
  const Parts parts = bytes == 4 ? FloatParts(p, device) : HalfParts(p, skew, device);
  if (parts.blocks < 2 || parts.blocks > device.cluster_blocks) return false;
  const auto chunks = static_cast<int>(DivideUp(p.chunks, parts.blocks));
  if (chunks > PartChunks(bytes, plan->mixed)) return false;
  p.slice_bytes = (chunks * kChunkSlots * 32 + kEdgeVectors + 1) * kVectorBytes;
  // So much for each block that no more fit. The system takes 1 KB of each.
  constexpr int kSystemBytes = 1024;
  const int table_bytes = PartTableBytes(bytes, skew);
  const auto share = [&](int fit) {
    return ((device.shared_bytes + kSystemBytes) / fit - kSystemBytes - table_bytes) / kVectorBytes * kVectorBytes;
  };
  const int needed = p.slice_bytes + p.chunks * 8;
  int fit = needed > share(parts.fit) ? parts.fit - 1 : parts.fit;
  while (plan->mixed && needed > share(fit)) --fit;
  // Aligned rows gain only where there are many rounds of blocks.
  const int rounds = skew || parts.blocks > kMaxClusterBlocks ? 1 : 8;
  if (needed > share(fit)) return false;
  if (!plan->mixed && !FillPlaces(p.rows * parts.blocks, rounds * fit, device)) return false;
  p.cluster_blocks = parts.blocks;
  p.warps = fit == 6 ? 4 : PartWarps(bytes);
  plan->kind = MatrixKind::kBulk;
  plan->threads = 32 * p.warps;
  plan->blocks = p.rows * parts.blocks;
  plan->dynamic_bytes = share(fit);
  return true;
}

const void* BulkKernelOf(DataType type, const MatrixPlan& plan) {
  const TileKernels& kernels = TileKernelsFor(type);
  const int log = plan.params.log ? 1 : 0;
  if (plan.slots == kBulkPairSlots) return kernels.bulk_pair[log];
  return plan.params.cluster_blocks > 1 ? kernels.bulk_cluster[plan.skew ? 1 : 0][log] : kernels.bulk[log];
}

const void* TinyKernelOf(DataType type, const MatrixPlan& plan) {
  const auto bytes = static_cast<int>(SizeOf(type));
  const std::int64_t cols = plan.params.cols;
  const int log = plan.params.log ? 1 : 0;
  const TileKernels& tiles = TileKernelsFor(type);
  if (plan.slots > 0) {
    const int size = plan.slots - kLeastTileVectors;
    return plan.mixed && bytes == 2 ? tiles.mixed_tile[size][log] : tiles.tile[TileShare(cols, bytes) - 1][size][log];
  }
  const auto last_vector = (cols - 1) / VectorElements(bytes);
  const MatrixKernels& kernels = MatrixKernelsFor(type);
  const bool is_twelve = bytes == 2 && cols > 8 && cols <= 12;
  if (plan.mixed && bytes == 2) return is_twelve ? tiles.mixed_twelve[log] : tiles.mixed_tiny[last_vector][log];
  if (HasNarrow(cols, bytes)) return kernels.narrow[cols - 1][log];
  if (is_twelve) return kernels.twelve[log];
  return kernels.tiny[last_vector][log];
}

const TileKernels& TileKernelsFor(DataType type) {
  return OfType(type, Float32TileKernels, Float16TileKernels, BFloat16TileKernels, Float64TileKernels);
}

}  // namespace softmax::kernels::cuda
