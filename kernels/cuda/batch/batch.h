#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/core/scale.h"
#include "kernels/cuda/core/work.h"

// A batch of several segments of contiguous rows in one launch. The host sorts the segments by how their rows are run
// and cuts them into units of about equal size; blocks take units when they are ready for them, and have the next
// unit's segments on their way while they work. The bits are those of the general kernel.
namespace softmax::kernels::cuda {

constexpr int kBatchThreads = 256;
constexpr int kBatchScales = 4;  // different scales in one launch, at most
// What a unit has in the table at most; three blocks' tables just fit on a multiprocessor.
constexpr int kUnitSegments = 30;
constexpr int kUnitSingles = 60;
constexpr int kUnitChunks = 32;                                // that a block holds in shared memory, at most
constexpr int kBatchChunks = kMaxClusterBlocks * kUnitChunks;  // of the widest rows
constexpr int kInlineBatchSegments = 56;
constexpr int kInlineUnits = 56;
constexpr int kInlineExtras = 48;
// Blocks a multiprocessor has to hold, as its shared memory, the registers of doubles and stores of another type allow.
constexpr int BatchBlocks(int element_bytes, bool mixed) { return element_bytes == 8 || mixed ? 2 : 3; }
// One chunk, where it lies on lines.
constexpr int kPieceVectors = kChunkSlots * 32 + kEdgeVectors;

struct alignas(16) BatchSegment {
  const void* input;
  void* output;
  std::uint32_t cols;
  std::uint32_t rows;
  std::uint32_t first_row;  // of all rows in the order of the table
  std::uint32_t extra;      // 0: dense and without lengths; otherwise one more than the index of a BatchExtra
};
static_assert(sizeof(BatchSegment) == 32, "copied in vectors of 16 bytes");

// What takes its place where all segments of a large batch are one dense row without lengths, as the bus bounds batches
// of short rows. The addresses have 48 bits; above them are the low 16 bits of the columns (`input`) and the others.
struct alignas(16) BatchSingle {
  std::uint64_t input;
  std::uint64_t output;
};
constexpr int kAddressBits = 48;
constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << kAddressBits) - 1;

// What few segments have.
struct alignas(16) BatchExtra {
  const std::uint32_t* lengths;
  std::uint32_t input_stride;
  std::uint32_t output_stride;
};

// Rows that a block takes at a time (a cluster: one row). All are run alike.
struct alignas(16) BatchUnit {
  std::uint32_t first_segment;
  std::uint32_t first_row;
  std::uint16_t rows;
  std::uint8_t segments;
  std::uint8_t lanes;  // per small row; 0: large rows
  std::uint8_t slots;  // vectors per lane of small rows
  std::uint8_t scale;
  std::uint8_t log;
  std::uint8_t reserved;
};
static_assert(sizeof(BatchUnit) == 16, "read as one vector");

// The units that each block, or cluster, has for its own; the others are taken by who is ready for them.
constexpr int OwnUnits(int cluster_blocks) { return cluster_blocks > 1 ? 4 : 3; }

struct BatchParams {
  const BatchSegment* segments;  // mapped host memory; nullptr: the inline ones
  const BatchSingle* singles;    // mapped host memory; if not nullptr, what there is instead of segments
  const BatchExtra* extras;
  const BatchUnit* units;  // those of clusters first
  std::uint32_t cluster_units;
  std::uint32_t unit_count;
  int cluster_blocks;
  int warp_pieces;   // that a warp has room for in shared memory
  int output_bytes;  // of an element
  DataType output_type;
  // Units of clusters that are taken, others, and blocks that have ended; nullptr: units are dealt out.
  std::uint32_t* taken;
  ScaleParts<float> scale_float[kBatchScales];
  ScaleParts<double> scale_double[kBatchScales];
  Completion completion;
  BatchSegment inline_segments[kInlineBatchSegments];
  BatchExtra inline_extras[kInlineExtras];
  BatchUnit inline_units[kInlineUnits];
};
static_assert(sizeof(BatchParams) <= 4096, "the classic limit of kernel parameters");

}  // namespace softmax::kernels::cuda
