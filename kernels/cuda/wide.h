#pragma once

#include "kernels/cuda/matrix.h"

// Kernels for very wide rows beside those of matrix.h; none for fp64.
namespace softmax::kernels::cuda {

// Of rings (matrix_ring.cuh).
constexpr int kRingWarps = 22;  // that take chunks,
constexpr int kRingPlaces = 5;  // so many each
constexpr int kRingThreads = (kRingWarps + 2) * 32;
constexpr int kRingTableBytes = 2688;
constexpr int kRingBytes = kRingWarps * kRingPlaces * kChunkBytes + kRingTableBytes;

// Chunks of a row that a block takes where there are no clusters and few parts: as many as leave three blocks a
// multiprocessor.
constexpr int kPartChunks = 34;

struct WideKernels {
  const void* ring[2];      // by log, for rows on 128-byte lines
  const void* parts[2][2];  // by skew and log: parts of up to kPartChunks chunks, of 16-bit elements

  const void* const* begin() const { return &ring[0]; }
  const void* const* end() const { return begin() + 6; }
};
static_assert(sizeof(WideKernels) == 6 * sizeof(void*), "iterated as an array");

const WideKernels& WideKernelsFor(DataType type);
const WideKernels& Float32WideKernels();
const WideKernels& Float16WideKernels();
const WideKernels& BFloat16WideKernels();

}  // namespace softmax::kernels::cuda
