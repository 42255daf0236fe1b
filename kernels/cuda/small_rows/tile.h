#pragma once

#include "kernels/cuda/rows/matrix.h"

// Dense rows, or rows with small gaps, that miss the 16-byte boundaries and have too many columns for one thread: tiles
// of whole rows, as those of tiny rows, of which a few threads share each row. They are plans of kind kTiny with slots.
namespace softmax::kernels::cuda {

// Vectors of a row that each thread holds.
constexpr int kLeastTileVectors = 3;
constexpr int kMostTileVectors = 8;

// Whether there is a kernel whose threads hold so many vectors and stand for so many lanes.
constexpr bool HasTile(int element_bytes, int vectors, int share) {
  return element_bytes == 2 ? share == 2 && vectors >= 4 && vectors <= 6 : share == 2 || vectors > 4;
}
// Wide rows of fp32, which have a share of 1, go as tiles for softmax alone.
constexpr bool HasTileKernel(int element_bytes, int vectors, int share, bool log) {
  return HasTile(element_bytes, vectors, share) && !(element_bytes == 4 && share == 1 && log);
}
// Fewer columns are faster with a thread a row. More of 16 bits would take either so many registers that a
// multiprocessor holds too few rows, or so many threads a row that they wait for each other's banks of shared memory.
constexpr std::int64_t LeastTileColumns(int element_bytes) { return element_bytes == 2 ? 49 : 33; }
// Vectors of a row of 16 bits that a thread takes alone where results are of another type: more columns go as tiles.
constexpr int kMixedTinyVectors = 6;
constexpr std::int64_t MostTileColumns(int element_bytes) { return element_bytes == 2 ? 768 : SmallColumns(4); }

// Wider ones, of up to so many chunks, go through shared memory by bulk copies, a block for each (large_rows/bulk.cuh).
constexpr int BulkChunks(int element_bytes) { return element_bytes == 8 ? 48 : 32; }
constexpr int kBulkThreads = 384;
constexpr int kBulkWarps = 24;  // that a multiprocessor holds
constexpr int BulkTableBytes(int element_bytes) { return element_bytes == 8 ? 1024 : 512; }  // of static shared memory
// Slots of a row with empty ones at its end where they cost less than a chunk that is not whole: chunks are taken in
// pairs, a whole one alone, or slot by slot.
constexpr int PaddedSlots(int slots) {
  const int rest = slots % (2 * kChunkSlots);
  return rest > kChunkSlots ? slots - rest + 2 * kChunkSlots : rest == kChunkSlots - 1 ? slots + 1 : slots;
}

// Other kernels beside these are for many rows that
// - are of 16 bits, miss the boundaries and have a chunk and little more: a warp for each, in shared memory
//   (large_rows/bulk_pair.cuh),
// - are aligned and of more chunks than a block takes: a warp for each chunk, in clusters (large_rows/cluster.cuh),
// - are wider still, or miss the boundaries: a part for each block of a cluster, in shared memory
//   (large_rows/bulk_cluster.cuh).
constexpr int kBulkPairSlots = kChunkSlots + 1;
constexpr int kBulkPairVectors = kBulkPairSlots * 32 + kEdgeVectors;
constexpr int kBulkPairWarps = 4;  // of a block
// Warps of a block that takes a chunk with each of them, at most. Log-softmax of 16 bits needs more registers.
constexpr int ClusterWarps(int element_bytes, bool log) { return element_bytes == 2 && log ? 8 : 16; }
// Chunks of a part, and warps that take them, at most. Rows of fp32 whose results are of another type have parts alone.
constexpr int PartChunks(int element_bytes, bool mixed) { return element_bytes == 2 ? 17 : mixed ? 32 : 20; }
constexpr int PartWarps(int element_bytes) { return element_bytes == 2 ? 6 : 5; }
// Whether the first lane's vectors lie apart (large_rows/bulk.cuh): it saves instructions, which bound 16-bit rows.
constexpr bool HasApart(int element_bytes, bool skew) { return element_bytes == 2 && skew; }
// Static shared memory of such a block, at most.
constexpr int PartTableBytes(int element_bytes, bool skew) {
  return BulkTableBytes(element_bytes) +
         (HasApart(element_bytes, skew) ? PartChunks(element_bytes, false) * kChunkSlots * kVectorBytes : 0);
}

// Whether the tensor is larger than so many halves of the shared memory of all multiprocessors.
bool FillsShared(const MatrixParams& p, int bytes, int halves, const Device& device);

// Dense rows of few vectors are moved as tiles of rows, unless lanes have just as many vectors: whole ones in a number
// that leaves few lanes idle. An even number of them costs a tile some of its speed, so those that go as tiles are
// those that were faster so, in tensors that fill the shared memory of all multiprocessors. For doubles that was not
// measured.
bool IsTiny(const MatrixParams& p, int bytes, bool skew, const Device& device);

// Whether dense aligned rows go as tiles of rows that several threads share, as lanes would be idle and a thread a row
// is slower: those of seven 16-bit vectors, and in large tensors nine; of fp32 those of twelve, of ten (log-softmax but
// in large tensors) and, in large ones, log-softmax of fourteen. As measured on an H200.
bool IsOddTile(const MatrixParams& p, int bytes, const Device& device);

// Lanes that one thread of a tile stands for: two, unless that gives it too many vectors. 0: no tile takes such rows.
int TileShare(std::int64_t cols, int bytes);

// The kernel of a plan of kind kTiny.
const void* TinyKernelOf(DataType type, const MatrixPlan& plan);

// Plans tiles in which each thread has whole rows.
void PlanTiny(int bytes, const Device& device, MatrixPlan* plan);

// Plans tiles of rows that several threads share, in which all of a block's threads have a row equally often. False:
// the rows are not of that size, or so few that lanes on their own are faster. Nor few fp32 columns in large tensors,
// where a thread a row is faster.
bool PlanTile(int bytes, const Device& device, MatrixPlan* plan);

// Plan the kernels for many rows. False: the rows are others, of a size that others are better at, or few.
bool PlanBulkPair(int bytes, const Device& device, MatrixPlan* plan);
bool PlanCluster(int bytes, const Device& device, MatrixPlan* plan);
bool PlanBulkCluster(int bytes, const Device& device, MatrixPlan* plan);

// Plans a block for each row, of which the warps take neighbouring chunks. False: the rows are of a size that others
// are better at, aligned (of doubles, which are taken one by one, these too), or too few.
bool PlanBulk(int bytes, const Device& device, MatrixPlan* plan);

// The kernel of a plan of kind kBulk.
const void* BulkKernelOf(DataType type, const MatrixPlan& plan);

// One input type's kernels, by share - 1, vectors and `log`; nullptr for those that HasTile() has not.
struct TileKernels {
  static constexpr int kSizes = kMostTileVectors - kLeastTileVectors + 1;
  static constexpr int kCount = 2 * kSizes * 2 + kSizes * 2 + 2 + kMixedTinyVectors * 2 + 2 + 2 + 2 * 2 + 2;
  const void* tile[2][kSizes][2];
  // Of 16 bits, whose results are of another type: with a share of 2; a thread a row, of up to 12 columns and by
  // vectors.
  const void* mixed_tile[kSizes][2];
  const void* mixed_twelve[2];
  const void* mixed_tiny[kMixedTinyVectors][2];
  const void* bulk[2];             // by `log`
  const void* bulk_pair[2];        // of 16 bits
  const void* bulk_cluster[2][2];  // by `skew` and `log`; of fp32 one kernel for both, nullptr for doubles
  const void* cluster[2];          // not of doubles

  const void* const* begin() const { return &tile[0][0][0]; }
  const void* const* end() const { return begin() + kCount; }
};
static_assert(sizeof(TileKernels) == TileKernels::kCount * sizeof(void*), "iterated as an array");
// Those of fp64 have no tiles.
const TileKernels& TileKernelsFor(DataType type);
const TileKernels& Float32TileKernels();
const TileKernels& Float16TileKernels();
const TileKernels& BFloat16TileKernels();
const TileKernels& Float64TileKernels();

}  // namespace softmax::kernels::cuda
