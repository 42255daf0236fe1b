#pragma once

#include <cstdint>

// Rows of doubles that are taken element by element, a few threads each (matrix_single.cuh).
namespace softmax::kernels::cuda {

// Small rows: what a kernel is compiled for.
struct SingleSize {
  int elements;  // of a thread, at most
  int threads;   // of a row
  int lanes;     // that would share such a row elsewhere (RowLanes())

  constexpr int Columns() const { return elements * threads; }
};
constexpr int kSingleLeast = 17;  // columns
// By columns. Eight threads a row are the fewest that move 64 bytes side by side.
constexpr SingleSize kSingleSizes[] = {{6, 8, 8}, {9, 8, 16}, {12, 8, 16}, {9, 16, 32}, {12, 16, 32}, {16, 16, 32}};
constexpr int kSingleCount = sizeof(kSingleSizes) / sizeof(kSingleSizes[0]);

// The size that takes rows of so many columns, or kSingleCount.
constexpr int SingleSizeOf(std::int64_t cols) {
  int size = cols < kSingleLeast ? kSingleCount : 0;
  while (size < kSingleCount && kSingleSizes[size].Columns() < cols) ++size;
  return size;
}

// Rows of two chunks, in shared memory: threads that share one, and columns, at most.
constexpr int kPairThreads = 16;
constexpr int kPairColumns = 464;

}  // namespace softmax::kernels::cuda
