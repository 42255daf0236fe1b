#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/softmax.h"
#include "kernels/types.h"

// What the host hands to one launch, and the geometry of rows that host and device agree on.
//
// A row of few columns is reduced by a group of lanes of one warp. A wider one is cut into chunks of 2 KB, counted from
// column 0: one warp reduces one chunk. The statistics of up to 512 chunks are folded at once; wider rows fold each 32
// chunks into a group's and the groups' into 64 accumulators. This tree depends on the row's width alone, so it gives
// the same bits whichever warp, block or cluster works on a chunk: who works on what is then free to choose for speed.
namespace softmax::kernels::cuda {

constexpr int kBlockThreads = 256;
constexpr int kBlockWarps = kBlockThreads / 32;
constexpr int kVectorBytes = 16;
constexpr int kGroupChunks = 32;
constexpr int kFlatChunks = 512;  // rows of more are folded in groups
constexpr int kAccumulators = 64;
constexpr int kMaxClusterBlocks = 8;     // the largest portable cluster
constexpr int kLargeClusterBlocks = 16;  // the largest there is
constexpr int kMaxGridBlocks = 2048;

constexpr int kChunkSlots = 4;  // vectors per lane
constexpr int kChunkBytes = kChunkSlots * 32 * kVectorBytes;
// Vectors from one 128-byte line to the next: what a stretch of a row takes more in shared memory if it is to lie on
// the lines there as it does in global memory.
constexpr int kEdgeVectors = 8;
// What one more chunk for each warp of a block costs in shared memory.
constexpr int kStashBytes = kBlockWarps * kChunkBytes;

constexpr int VectorElements(int element_bytes) { return kVectorBytes / element_bytes; }
// Neighbouring elements that one access moves on either side where input and output are of these types.
constexpr int PieceElements(int input_bytes, int output_bytes) {
  return kVectorBytes / (input_bytes > output_bytes ? input_bytes : output_bytes);
}
constexpr int ChunkColumns(int element_bytes) { return kChunkBytes / element_bytes; }
// Rows of at most this many columns are small. 32-bit ones may be two chunks wide: it saves their barriers.
constexpr int SmallSlots(int element_bytes) { return element_bytes == 4 ? 8 : kChunkSlots; }
constexpr int SmallColumns(int element_bytes) { return SmallSlots(element_bytes) * 32 * VectorElements(element_bytes); }
// Log-softmax rows of at most this many valid columns take extra care with their sum: log 8 > 2, and from there on the
// bound is twice as wide. They lie in the first slot of a small row's lanes.
constexpr int kPreciseColumns = 7;
constexpr int kManyColumns = kPreciseColumns + 1;  // no such row
// Of those, rows of at most this many columns in all keep what is lost in rounding the sum.
constexpr int kNarrowColumns = 8;
// Lanes that share a small row: enough to move 64 bytes side by side, and then as few as hold the row in two vectors
// each, or three from 8 lanes on (16 bits: 4), so that lanes are never much more than half idle. Fewer would take fewer
// shuffles, but rows that miss the sectors of memory then touch too many of them.
constexpr int RowLanes(std::int64_t cols, int element_bytes) {
  const std::int64_t vectors = (cols + VectorElements(element_bytes) - 1) / VectorElements(element_bytes);
  int lanes = vectors > 2 ? 4 : vectors > 1 ? 2 : 1;
  while (lanes < 32 && vectors > (lanes < 8 && element_bytes != 2 ? 2 : 3) * lanes) lanes *= 2;
  return lanes;
}

// One Segment as the device sees it.
struct DeviceSegment {
  const void* input;
  void* output;
  const std::uint32_t* lengths;
  std::int64_t outer;
  std::int64_t cols;
  std::int64_t inner;
  std::int64_t input_stride;
  std::int64_t output_stride;
  double scale;
  std::uint8_t log;  // 1: log-softmax
};

// How the rows of a segment lie to the boundaries of 16 bytes.

// Whether input and output rows miss the boundaries alike, counted in elements: pieces that begin on a boundary of the
// input, or a multiple of PieceElements() behind it, are then aligned in the output.
inline bool AreAlike(const Segment& s, int input_bytes, int output_bytes) {
  const auto elements = [](const void* p, int bytes) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p)) / bytes;
  };
  const std::int64_t piece = PieceElements(input_bytes, output_bytes);
  return (elements(s.input, input_bytes) - elements(s.output, output_bytes)) % piece == 0 &&
         (s.outer == 1 || (s.input_stride - s.output_stride) % piece == 0);
}

}  // namespace softmax::kernels::cuda
