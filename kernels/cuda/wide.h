#pragma once

#include "kernels/cuda/matrix.h"

// Kernels for very wide rows beside those of matrix.h; none for fp64.
namespace softmax::kernels::cuda {

// Of rings (matrix_ring.cuh): the warps that take units of so many chunks, for how many units each of them has places
// in shared memory and in registers, and how many units a block has on their way at a time. As measured on an H200.
struct RingShape {
  int warps;
  int places;
  int kept;
  int chunks;
  int window;

  constexpr int Threads() const { return (warps + 1) * 32; }
};
// Two of 16 bits and two of fp32: for rows of which a multiprocessor has at most a group, and for wider ones.
constexpr int kRings = 4;
constexpr RingShape kRingShapes[kRings] = {{18, 3, 0, 2, 18}, {22, 5, 0, 1, 20}, {13, 4, 1, 2, 16}, {11, 5, 2, 2, 14}};
constexpr int RingIndex(int element_bytes, bool is_wide) { return (element_bytes == 4 ? 2 : 0) + (is_wide ? 1 : 0); }
constexpr int kRingPlaces = 110;  // of a chunk in shared memory, at most
constexpr int kRingTableBytes = 2688;
constexpr int kRingBytes = kRingPlaces * kChunkBytes + kRingTableBytes;

// Chunks of a row that a block takes where there are no clusters and few parts: as many as leave three blocks a
// multiprocessor.
constexpr int kPartChunks = 34;

struct WideKernels {
  static constexpr int kCount = 2 * 2 + 2 * 2;
  const void* ring[2][2];   // by the type's shapes and log, for rows on 128-byte lines
  const void* parts[2][2];  // by skew and log: parts of up to kPartChunks chunks

  const void* const* begin() const { return &ring[0][0]; }
  const void* const* end() const { return begin() + kCount; }
};
static_assert(sizeof(WideKernels) == WideKernels::kCount * sizeof(void*), "iterated as an array");

const WideKernels& WideKernelsFor(DataType type);
const WideKernels& Float32WideKernels();
const WideKernels& Float16WideKernels();
const WideKernels& BFloat16WideKernels();

}  // namespace softmax::kernels::cuda
