#pragma once

#include "kernels/cuda/rows/matrix.h"

// Kernels whose results are of another type than their input: fewer families than for one type, each of which stores
// any other type, by a branch. A row's value is that of the kernels for one type until the last rounding.
namespace softmax::kernels::cuda {

// Slots of the kernels for small rows: kernels for 5 and 7 take 6 and 8.
constexpr int kMixedSlots[] = {1, 2, 3, 4, 6, 8};
constexpr int kMixedSizes = 6;

// One input type's, by `log`; of doubles there are the kernels for bulk copies and batches alone.
struct MixedKernels {
  static constexpr int kCount = kMixedSizes * 4 + 2 + 2 * 2 + 2 + 2 + 2 + 1;
  const void* small[kMixedSizes][2][2];  // by `skew`, too
  const void* chunk[2];
  const void* few[2][2];  // blocks that are a cluster, a grid
  const void* large[2];   // few rows off the boundaries
  const void* bulk[2];
  const void* bulk_cluster[2];
  const void* batch;

  const void* const* begin() const { return &small[0][0][0]; }
  const void* const* end() const { return begin() + kCount; }
};
static_assert(sizeof(MixedKernels) == MixedKernels::kCount * sizeof(void*), "iterated as an array");

// The kernel of a plan with `mixed` whose kind is not kNone.
const void* MixedKernelOf(DataType type, const MatrixPlan& plan);

const MixedKernels& MixedKernelsFor(DataType type);
const MixedKernels& Float32MixedKernels();
const MixedKernels& Float16MixedKernels();
const MixedKernels& BFloat16MixedKernels();
const MixedKernels& Float64MixedKernels();

}  // namespace softmax::kernels::cuda
