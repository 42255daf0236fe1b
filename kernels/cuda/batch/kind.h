#pragma once

#include <cstdint>

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/rows/matrix.h"

// The kinds of rows that a batch's planner sorts.
namespace softmax::kernels::cuda {

// How rows are run, in the order of the table: by their chunks, most first, then small ones by what their lanes hold.
constexpr int kSmallKinds = 11;
constexpr int kKinds = kBatchChunks + 1 + kSmallKinds;

// The lanes and vectors per lane of small rows of each kind.
struct SmallKind {
  std::uint8_t lanes;
  std::uint8_t slots;
};
constexpr SmallKind kSmall[kSmallKinds] = {{32, 8}, {32, 4}, {32, 2}, {16, 4}, {16, 2}, {8, 4},
                                           {8, 2},  {4, 4},  {4, 2},  {2, 2},  {1, 2}};

inline int KindOf(std::int64_t cols, int bytes) {
  if (cols > SmallColumns(bytes)) {
    return kBatchChunks - static_cast<int>(DivideUp(cols, ChunkColumns(bytes)));
  }
  const std::int64_t vectors = DivideUp(cols, VectorElements(bytes));
  const int lanes = RowLanes(cols, bytes);
  int kind = 0;
  while (kSmall[kind].lanes > lanes) ++kind;
  while (kind + 1 < kSmallKinds && kSmall[kind + 1].lanes == lanes && vectors <= kSmall[kind + 1].slots * lanes) ++kind;
  return kBatchChunks + 1 + kind;
}

// Small rows of two chunks go through shared memory as large ones do.
constexpr int kDoubleKind = kBatchChunks + 1;

// Large rows of one chunk. Small rows that take a whole warp may be run as such, with the same bits.
constexpr int kOneChunk = kBatchChunks - 1;
inline bool IsChunk(int kind) { return kind > kDoubleKind && kSmall[kind - kBatchChunks - 1].lanes == 32; }

inline bool IsSmall(int kind) { return kind > kDoubleKind; }
inline int ChunksOf(int kind) { return kind == kDoubleKind ? 2 : kBatchChunks - kind; }

}  // namespace softmax::kernels::cuda
