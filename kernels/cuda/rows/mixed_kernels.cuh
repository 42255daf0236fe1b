#pragma once

#include "kernels/cuda/batch/rows.cuh"
#include "kernels/cuda/large_rows/bulk_cluster.cuh"
#include "kernels/cuda/large_rows/chunk.cuh"
#include "kernels/cuda/large_rows/few.cuh"
#include "kernels/cuda/large_rows/large.cuh"
#include "kernels/cuda/rows/mixed.h"

// Names every kernel of rows/mixed.h of one input type.
namespace softmax::kernels::cuda {

template <typename In, int kSlots, bool kSkew, bool kLog>
const void* SmallMixed() {
  if constexpr (kSlots > SmallSlots(sizeof(In))) {
    return nullptr;
  } else {
    return reinterpret_cast<const void*>(&SmallMatrixKernel<In, kSlots, kSkew, kLog, 1, true>);
  }
}

template <typename In, bool kLog>
const void* LargeMixed() {
  return reinterpret_cast<const void*>(&LargeMatrixKernel<In, kChunkSlots, true, kLog, kWideThreads, 1, true>);
}

template <typename In>
const void* BatchMixed() {
  return reinterpret_cast<const void*>(&BatchRowsKernel<In, true, true>);
}

template <typename In>
const MixedKernels& MixedKernelsOf() {
  if constexpr (sizeof(In) == 8) {
    static const MixedKernels of_doubles{{},
                                         {},
                                         {},
                                         {},
                                         {reinterpret_cast<const void*>(&BulkMatrixKernel<In, false, true>),
                                          reinterpret_cast<const void*>(&BulkMatrixKernel<In, true, true>)},
                                         {},
                                         BatchMixed<In>()};
    return of_doubles;
  } else {
#define SOFTMAX_SMALL(slots)                                                         \
  {                                                                                  \
    {SmallMixed<In, slots, false, false>(), SmallMixed<In, slots, false, true>()},   \
        {SmallMixed<In, slots, true, false>(), SmallMixed<In, slots, true, true>()}, \
  }
#define SOFTMAX_BOTH(kernel, ...)                                     \
  {                                                                   \
    reinterpret_cast<const void*>(&kernel<In, false, __VA_ARGS__>),   \
        reinterpret_cast<const void*>(&kernel<In, true, __VA_ARGS__>) \
  }
    static const MixedKernels kernels{
        {SOFTMAX_SMALL(1), SOFTMAX_SMALL(2), SOFTMAX_SMALL(3), SOFTMAX_SMALL(4), SOFTMAX_SMALL(6), SOFTMAX_SMALL(8)},
        SOFTMAX_BOTH(ChunkMatrixKernel, true),
        {SOFTMAX_BOTH(FewMatrixKernel, false, true), SOFTMAX_BOTH(FewMatrixKernel, true, true)},
        {LargeMixed<In, false>(), LargeMixed<In, true>()},
        SOFTMAX_BOTH(BulkMatrixKernel, true),
        {reinterpret_cast<const void*>(&BulkClusterMatrixKernel<In, true, false, true>),
         reinterpret_cast<const void*>(&BulkClusterMatrixKernel<In, true, true, true>)},
        BatchMixed<In>()};
#undef SOFTMAX_BOTH
#undef SOFTMAX_SMALL
    return kernels;
  }
}

}  // namespace softmax::kernels::cuda
