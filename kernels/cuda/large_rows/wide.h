#pragma once

#include "kernels/cuda/rows/matrix.h"

// Kernels for very wide rows beside those of rows/matrix.h; none for fp64.
namespace softmax::kernels::cuda {

// Of rings (large_rows/ring.cuh): the warps that take units of so many chunks, and for how many units each of them has
// places in shared memory and in registers.
struct RingShape {
  int warps;
  int places;
  int kept;
  int chunks;

  constexpr int Threads() const { return (warps + 1) * 32; }
};
// Log-softmax of fp32 has fewer registers for it.
constexpr RingShape RingShapeOf(int element_bytes, bool log) {
  return element_bytes == 2 ? RingShape{15, 7, 2, 1} : log ? RingShape{11, 5, 2, 2} : RingShape{11, 5, 3, 2};
}
constexpr int kRingPlaces = 110;  // of a chunk in shared memory, at most
constexpr int kRingTableBytes = 2688;
constexpr int kRingBytes = kRingPlaces * kChunkBytes + kRingTableBytes;

// One type's, for rows on 128-byte lines, by `log`; nullptr for doubles.
struct WideKernels {
  const void* ring[2];
};

const WideKernels& WideKernelsFor(DataType type);
const WideKernels& Float32WideKernels();
const WideKernels& Float16WideKernels();
const WideKernels& BFloat16WideKernels();

}  // namespace softmax::kernels::cuda
