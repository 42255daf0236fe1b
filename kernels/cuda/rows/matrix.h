#pragma once

#include "kernels/cuda/core/scale.h"
#include "kernels/cuda/core/work.h"

// One matrix of contiguous rows, as the host hands it to the kernels for the shape of its rows. The bits are those of
// the general kernel (general/kernel.cuh).
namespace softmax::kernels::cuda {

constexpr int kMatrixThreads = 256;
constexpr int kWideThreads = 512;
// Vectors a lane of the kernels for small rows.
constexpr int SmallSize(int slots) { return slots <= 2 ? slots : slots <= 4 ? 4 : 8; }
// Places in Completion::workspace, in words: the blocks of a grid that are done (Complete() counts at 0), those that
// are done with the table of wide rows, the units of batches that are taken, the readers of each place in the table,
// its last tag, and the table (blocks/grid_table.cuh).
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
constexpr int kMostFewSlots = 2;

// Blocks for each multiprocessor up to which a group of lanes takes one row. More rows are faster several at a time,
// but then no launch asks for its input before its turn. As measured on an H200.
constexpr int MostSingleBlocks(int slots) { return slots == 1 ? 16 : slots == 2 ? 7 : 0; }
// Rows per group of more: four vectors in flight a lane. Those off the boundaries have no registers for it.
constexpr int SmallRows(int size, bool skew) { return size < 4 && !skew ? 4 / size : 1; }

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
  DataType output_type;
  bool log;
  bool next_early;  // the next launch may take its places as soon as all blocks have begun
  int ahead_bytes;  // of the input, which each block asks for before its turn: AskAhead()
  Completion completion;
};

}  // namespace softmax::kernels::cuda
