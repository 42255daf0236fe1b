#pragma once

#include "kernels/cuda/rows/matrix.h"

// Dense rows that miss the 16-byte boundaries: a block moves a tile of whole rows as one stretch of aligned vectors,
// and in shared memory a thread works on a row, or a few threads share one (small_rows/tile_rows.cuh).
namespace softmax::kernels::cuda {

// What a thread of a kernel holds: so many vectors of a row at most, of which the first ones are whole, in the place of
// so many lanes of those that would share the row elsewhere. The first size has rows of up to kPreciseColumns columns,
// too, each number of them compiled for itself.
struct TileSize {
  int vectors;
  int whole;
  int share;
  bool alone;  // it has the row for itself
};
constexpr TileSize kFloatTiles[] = {{4, 2, 4, true},  {8, 4, 4, true},  {12, 8, 8, true}, {4, 2, 2, false},
                                    {8, 4, 2, false}, {5, 4, 1, false}, {8, 5, 1, false}};
constexpr TileSize kHalfTiles[] = {
    {2, 1, 2, true}, {6, 2, 4, true}, {4, 3, 2, false}, {5, 4, 2, false}, {6, 5, 2, false}};
constexpr int kFloatTileSizes = 7;
constexpr int kHalfTileSizes = 5;
constexpr int TileSizes(int element_bytes) { return element_bytes == 4 ? kFloatTileSizes : kHalfTileSizes; }
constexpr TileSize TileSizeOf(int size, int element_bytes) {
  return element_bytes == 4 ? kFloatTiles[size] : kHalfTiles[size];
}

// Columns of rows that go as tiles, at most. More of 16 bits would take either so many registers that a multiprocessor
// holds too few rows, or so many threads a row that they wait for each other's banks of shared memory.
constexpr std::int64_t MostTileColumns(int element_bytes) { return element_bytes == 2 ? 768 : SmallColumns(4); }

}  // namespace softmax::kernels::cuda
