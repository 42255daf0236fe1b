#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/core/scale.h"
#include "kernels/cuda/core/work.h"
#include "kernels/cuda/device.h"

// One matrix of contiguous rows: kernels compiled for the shape of the row, launched with
// a block (or cluster) for each row or few rows. The bits are those of the general kernel (kernel.cuh).
namespace softmax::kernels::cuda {

constexpr int kMatrixThreads = 256;
constexpr int kWideThreads = 512;
constexpr int kTinyVectors = 12;
// Vectors of rows that one thread holds: up to 48 or 64 elements.
constexpr int TinyVectors(int element_bytes) { return element_bytes == 4 ? kTinyVectors : 8; }
// Rows after which a dense row begins on a boundary again.
constexpr int BoundaryStep(int cols, int element_bytes) {
  int step = VectorElements(element_bytes);
  while (step > 1 && cols * (step / 2) * element_bytes % kVectorBytes == 0) step /= 2;
  return step;
}
// Dense rows of so few columns have kernels for their exact number, which take them so many at a time that they are
// whole vectors.
constexpr bool HasNarrow(std::int64_t cols, int element_bytes) {
  return cols <= (element_bytes == 2 ? kNarrowColumns : element_bytes == 4 ? kPreciseColumns : 0);
}
// Those that are one vector go by lanes but for fp32 log-softmax: no kernel is needed for the others.
constexpr bool HasNarrowKernel(int cols, int element_bytes, bool log) {
  return HasNarrow(cols, element_bytes) && (element_bytes == 2 || log || cols * element_bytes != kVectorBytes);
}
// A thread for each row: wider ones than narrow ones.
constexpr bool HasTinyKernel(int vectors, int element_bytes) {
  if (vectors > TinyVectors(element_bytes)) return false;
  return element_bytes == 8 || vectors * VectorElements(element_bytes) > kNarrowColumns;
}
// Two chunks a warp in registers; so many rows of doubles go as slices.
constexpr bool HasLarge(int slots, int element_bytes) { return element_bytes != 8 || slots == 4; }
// How often each thread of a block does that, for enough bytes on their way.
constexpr int NarrowEach(int cols, int element_bytes) {
  const int vectors = BoundaryStep(cols, element_bytes) * cols * element_bytes / kVectorBytes;
  return vectors == 1 ? 4 : vectors <= 5 ? 2 : 1;
}
constexpr int kSmallSlots = 8;  // vectors per lane of small rows, at most; kernels for 7 take 8
// Places in Completion::workspace, in words: the blocks of a grid that are done (Complete() counts at 0), those that
// are done with the table of wide rows, the parts of rows that are taken, the readers of each place in the table, its
// last tag, and the table (blocks/grid_table.cuh).
constexpr int kWorkspaceEnded = 1;
constexpr int kWorkspaceTaken = 32;
constexpr int kWorkspaceReaders = 64;
constexpr int kWorkspaceTag = static_cast<int>(kSoftmaxWorkspaceZeroBytes / 4);
constexpr int kMaxTableRows = kWorkspaceTag - kWorkspaceReaders;
constexpr int kWorkspaceTable = kWorkspaceTag + 32;
constexpr int kMatrixTableBytes = 2 * kFlatChunks * 16;  // of static shared memory, at most

constexpr int kOneWaveBlocks = 4;  // a multiprocessor holds so many of any kernel for one wave
// Warps of a block that takes a chunk with each of them, at most. Log-softmax needs more registers.
constexpr int ChunkWarps(bool log) { return log ? 12 : 16; }

// Threads of a block of small rows. 16-bit log-softmax of four slots off the boundaries, which fills a multiprocessor's
// registers, leaves its places sooner in blocks of two warps.
constexpr int SmallThreads(int element_bytes, int slots, bool skew, bool log) {
  return element_bytes == 2 && slots == kChunkSlots && skew && log ? 64 : kMatrixThreads;
}

// Slots of small rows that, where there are few of them, lie in smaller blocks.
constexpr int kMostFewSlots = 3;

// Blocks for each multiprocessor up to which a group of lanes takes one row. More rows are faster several at a time,
// but then no launch asks for its input before its turn. As measured on an H200.
constexpr int MostSingleBlocks(int slots) { return slots == 1 ? 16 : slots == 2 ? 7 : 0; }
// Rows per group of more: at least four vectors in flight a lane.
constexpr int SmallRows(int slots) { return slots < 4 ? 4 / slots : 1; }

struct MatrixParams {
  const void* input;
  void* output;
  const std::uint32_t* lengths;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t input_stride;
  std::int64_t output_stride;
  std::int64_t elements;  // from the input's first to its last
  ScaleParts<double> scale_double;
  ScaleParts<float> scale_float;
  int lanes;           // per row, for small rows
  int chunks;          // per row, for large rows
  int warps;           // per row in one block, for large rows and slices; for wide rows those that take a chunk more
  int rows_per_block;  // for large rows, slices and tiles of tiny ones
  int block_chunks;    // for slices: of a block,
  int warp_chunks;     // of a warp, but the last one,
  int warp_vectors;    // and what they take in shared memory,
  int slice_bytes;     // in all
  int cluster_blocks;
  int groups;        // per row, for wide rows: of block_chunks chunks,
  int block_groups;  // and of them per block
  int row_blocks;    // blocks that share a row
  int table_rows;    // rows that the table in the workspace holds
  int part_window;   // parts of rows that are read at a time
  DataType output_type;
  bool log;
  bool next_early;    // the next launch may take its places as soon as all blocks have begun
  bool fetches_ends;  // of the output's rows, which have gaps between them: FetchEnd()
  int ahead_bytes;    // of the input, which each block asks for before its turn: AskAhead()
  Completion completion;
  ExactDivisor by_row_blocks;  // of rows whose parts blocks take in turn
  ExactDivisor by_table_rows;  // likewise
};

enum class MatrixKind : std::uint8_t {
  kNone,    // none of these kernels takes the segment
  kTiny,    // dense rows in tiles: of at most kTinyVectors vectors, a thread each, or as small_rows/tile.h has it
  kSmall,   // a group of lanes per row
  kShare,   // the same for many aligned rows, with threads that stand for two lanes each (small_rows/share.h)
  kSingle,  // the same for fewer rows, a row a group (MostSingleBlocks())
  kSplit,   // small rows too, a block for each of few
  kChunk,   // many rows of whole vectors, a warp for each chunk, in a block or a cluster (small_rows/tile.h)
  kFew,     // so few rows that many blocks share each, a warp for each chunk
  kLarge,   // the warps of a block or cluster per row
  kWide,    // blocks that take parts of rows in turn, launched cooperatively
  kSlice,   // the same, through shared memory
  kBulk,    // through shared memory by bulk copies: warps of a block per row, or of a cluster (small_rows/tile.h)
};

// How a segment is run. Which kernel takes it never shows in the results.
struct MatrixPlan {
  MatrixKind kind = MatrixKind::kNone;
  int slots = 0;       // 16-byte vectors per lane, compiled for
  bool mixed = false;  // the results are of another type: rows/mixed.h
  bool skew = false;   // rows do not start on 16-byte boundaries, but input and output miss them alike
  bool lines = false;  // rows start on 128-byte lines
  int threads = kMatrixThreads;
  std::int64_t blocks = 0;
  int dynamic_bytes = 0;
  MatrixParams params;
};

MatrixPlan PlanMatrix(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
                      const Device& device);

// Lets the blocks of a plan ask for their input before their turn (AskAhead()). Not for memory that others than the
// device may write until then, past its L2.
void PlanAhead(DataType type, const Device& device, MatrixPlan* plan);

// The kernel of a plan whose kind is not kNone.
const void* MatrixKernelOf(DataType type, const MatrixPlan& plan);

// One input type's kernels. The last two indices are `skew` and `log`.
struct MatrixKernels {
  static constexpr int kCount =
      kSmallSlots * 4 + 2 * 4 + 4 + 2 * 4 + 2 * 2 + 2 * 2 + kTinyVectors * 2 + 2 + kNarrowColumns * 2 + 2 + 2 * 2;
  const void* small[kSmallSlots][2][2];  // by slots; kernels for 5 and 7 take 6 and 8
  const void* single[2][2][2];           // 1, 2 slots
  const void* split[2][2];
  const void* large[2][2][2];  // 4, 8 slots
  const void* slice[2][2];
  const void* wide[2][2];
  const void* tiny[kTinyVectors][2];      // by vectors; nullptr beyond TinyVectors()
  const void* twelve[2];                  // 9 to 12 columns of 16 bits
  const void* narrow[kNarrowColumns][2];  // by columns, see HasNarrow
  const void* chunk[2];                   // of whole vectors, on boundaries; nullptr for fp64
  const void* few[2][2];                  // the same; blocks that are a cluster, a grid

  const void* const* begin() const { return &small[0][0][0]; }
  const void* const* end() const { return begin() + kCount; }
};
static_assert(sizeof(MatrixKernels) == MatrixKernels::kCount * sizeof(void*), "iterated as an array");
const MatrixKernels& MatrixKernelsFor(DataType type);
const MatrixKernels& Float32MatrixKernels();
const MatrixKernels& Float16MatrixKernels();
const MatrixKernels& BFloat16MatrixKernels();
const MatrixKernels& Float64MatrixKernels();

}  // namespace softmax::kernels::cuda
