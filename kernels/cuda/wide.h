#pragma once

#include "kernels/cuda/matrix.h"

// Kernels for very wide rows beside those of matrix.h; none for fp64.
namespace softmax::kernels::cuda {

// Of rings (matrix_ring.cuh): the warps that take units of so many chunks, and for how many units each of them has
// places in shared memory and in registers.
struct RingShape {
  int warps;
  int places;
  int kept;
  int chunks;

  constexpr int Threads() const { return (warps + 1) * 32; }
};
// Three of 16 bits and three of fp32: which of them rows want, wide_plan.cc says. The last is for softmax alone.
constexpr int kRings = 3;
constexpr RingShape kHalfRings[kRings] = {{18, 3, 0, 2}, {22, 5, 0, 1}, {15, 7, 2, 1}};
constexpr RingShape kFloatRings[kRings] = {{13, 4, 1, 2}, {11, 5, 2, 2}, {11, 5, 3, 2}};
constexpr RingShape RingShapeOf(int element_bytes, int index) {
  return element_bytes == 4 ? kFloatRings[index] : kHalfRings[index];
}
constexpr bool HasRing(int element_bytes, int index, bool log) { return element_bytes == 2 || index < 2 || !log; }
constexpr int kRingPlaces = 110;  // of a chunk in shared memory, at most
constexpr int kRingTableBytes = 2688;
constexpr int kRingBytes = kRingPlaces * kChunkBytes + kRingTableBytes;

// Chunks of a row that a block takes where there are no clusters and few parts: as many as leave three blocks a
// multiprocessor.
constexpr int kPartChunks = 34;

struct WideKernels {
  static constexpr int kCount = kRings * 2 + 2 * 2;
  const void* ring[kRings][2];  // by the type's shapes and log, for rows on 128-byte lines
  const void* parts[2][2];      // by skew and log: parts of up to kPartChunks chunks

  const void* const* begin() const { return &ring[0][0]; }
  const void* const* end() const { return begin() + kCount; }
};
static_assert(sizeof(WideKernels) == WideKernels::kCount * sizeof(void*), "iterated as an array");

const WideKernels& WideKernelsFor(DataType type);
const WideKernels& Float32WideKernels();
const WideKernels& Float16WideKernels();
const WideKernels& BFloat16WideKernels();

}  // namespace softmax::kernels::cuda
