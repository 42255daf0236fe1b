#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/core/divisor.h"
#include "kernels/cuda/rows/matrix.h"

// The order in which the units of a batch that no cluster runs are taken.
namespace softmax::kernels::cuda {

// The kinds of rows that a batch's planner sorts.

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

// Those of small rows are spread among the others at equal distances, so that the trips to their many segments do not
// come all at once. The last of them, whose rows are the smallest, come after all others: blocks that are done early
// take these while the others end.
class UnitPlaces {
 public:
  // `first`: of all places; `small`: how many of the `all` units are of small rows; `last`: how many of these come last
  // at most.
  UnitPlaces(std::uint32_t first, std::uint32_t all, std::uint32_t small, std::uint32_t last)
      : first_(first), spread_(small - std::min(small, last)), body_(all - std::min(small, last)) {}

  std::uint32_t NextSmall() {
    const std::uint64_t i = small_++;
    return first_ + static_cast<std::uint32_t>(i < spread_ ? i * body_ / spread_ : body_ + i - spread_);
  }
  std::uint32_t NextOther() {
    while (IsSmall(others_)) ++others_;
    return first_ + others_++;
  }

 private:
  // Whether a place is one of those that are spread.
  bool IsSmall(std::uint64_t place) const {
    const std::uint64_t nearest = (place * spread_ + body_ - 1) / body_;
    return nearest < spread_ && nearest * body_ / spread_ == place;
  }

  std::uint32_t first_;
  std::uint64_t spread_;
  std::uint64_t body_;  // places before the last small ones
  std::uint32_t small_ = 0;
  std::uint32_t others_ = 0;
};

}  // namespace softmax::kernels::cuda
