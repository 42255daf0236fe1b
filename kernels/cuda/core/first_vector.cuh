#pragma once

#include "kernels/cuda/core/part.cuh"

// What the regimes whose threads stand for several lanes share.
namespace softmax::kernels::cuda {

// The sum of PreciseStats(), where x are a thread's first elements: the columns lie in the first one's or, of 32 bits,
// in the first two's. kAlone: all of the row are this thread's.
template <typename In, bool kAlone>
__device__ __forceinline__ ComputeOf<In> PreciseFirstSum(const ComputeOf<In>* x, ComputeOf<In> max, Lanes threads,
                                                         const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  const C max_pre = MaxPre(max, scale);
  TwoPart<C> sums[kVector];
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    sums[e].high = scale.PreciseExp(x[e], max_pre);
    if constexpr (kVector < kPreciseColumns) {
      const C second =
          kAlone ? scale.PreciseExp(x[kVector + e], max_pre) : __shfl_down_sync(0xffffffffu, sums[e].high, 1);
      sums[e].Add(second, C(0));
    }
  }
  HalvingSum<kVector, 1>(sums);
  return __shfl_sync(0xffffffffu, sums[0].high + sums[0].low, 0, threads.count);
}

}  // namespace softmax::kernels::cuda
