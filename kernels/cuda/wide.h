#pragma once

#include "kernels/cuda/matrix.h"

// Kernels for very wide rows beside those of matrix.h; none for fp64.
namespace softmax::kernels::cuda {

// Of rings (matrix_ring.cuh): the warps that take chunks, and how many of them each has places for in shared memory and
// in registers.
struct RingShape {
  int warps;
  int places;
  int kept;

  constexpr int Threads() const { return (warps + 1) * 32; }
};
constexpr int kRings = 3;  // the last of fp32 alone
constexpr RingShape kRingShapes[kRings] = {{22, 5, 0}, {15, 7, 2}, {11, 10, 5}};
constexpr int kRingPlaces = 110;  // in shared memory, at most
constexpr int kRingTableBytes = 2688;
constexpr int kRingBytes = kRingPlaces * kChunkBytes + kRingTableBytes;

// Chunks of a row that a block takes where there are no clusters and few parts: as many as leave three blocks a
// multiprocessor.
constexpr int kPartChunks = 34;

struct WideKernels {
  static constexpr int kCount = kRings * 2 + 2 * 2;
  const void* ring[kRings][2];  // by shape and log, for rows on 128-byte lines
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
