#pragma once

#include "kernels/cuda/rows/matrix.h"

// Many aligned small rows of whole vectors with half the lanes that would share such a row elsewhere: a thread stands
// for two of them (small_rows/share.cuh), so what belongs to the row and not to its elements is done for twice as many
// rows at a time.
namespace softmax::kernels::cuda {

// Vectors of a row that each thread holds.
constexpr int kLeastShareVectors = 4;
constexpr int kMostShareVectors = 6;

// Threads of a block: the most registers leave no room for three of the usual size.
constexpr int ShareThreads(int vectors) { return vectors == kMostShareVectors ? kMatrixThreads / 2 : kMatrixThreads; }

// Whether there is a kernel whose threads hold so many vectors: where what belongs to the row counts, and its elements
// leave the registers for enough rows on a multiprocessor.
constexpr bool HasShare(int element_bytes, int vectors, bool log) {
  if (element_bytes == 8 || vectors < kLeastShareVectors || vectors > kMostShareVectors) return false;
  return vectors == 4 || (element_bytes == 2 && log) || (vectors == 5 && (element_bytes == 2 || log));
}

// Plans that for rows that lanes would have. False: they are others.
bool PlanShare(int bytes, const Device& device, MatrixPlan* plan);

// One input type's kernels, by vectors and `log`; nullptr for those that HasShare() has not.
struct ShareKernels {
  static constexpr int kSizes = kMostShareVectors - kLeastShareVectors + 1;
  static constexpr int kCount = kSizes * 2;
  const void* share[kSizes][2];

  const void* const* begin() const { return &share[0][0]; }
  const void* const* end() const { return begin() + kCount; }
};
static_assert(sizeof(ShareKernels) == ShareKernels::kCount * sizeof(void*), "iterated as an array");
// Those of fp64 have none.
const ShareKernels& ShareKernelsFor(DataType type);
const ShareKernels& Float32ShareKernels();
const ShareKernels& Float16ShareKernels();
const ShareKernels& BFloat16ShareKernels();

}  // namespace softmax::kernels::cuda
