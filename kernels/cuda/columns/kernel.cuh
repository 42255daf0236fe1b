#pragma once

#include "kernels/cuda/blocks/dependent.cuh"
#include "kernels/cuda/columns/early.cuh"
#include "kernels/cuda/columns/fold.cuh"
#include "kernels/cuda/columns/results.cuh"
#include "kernels/cuda/columns/stats.cuh"
#include "kernels/cuda/columns/sums.cuh"

// The kernel over another axis (columns/matrix.cuh).
namespace softmax::kernels::cuda {

// Blocks of MostColumnThreads() that a multiprocessor has to hold.
template <ColumnMode kMode>
constexpr int kColumnBlocks = kMode == ColumnMode::kSmall ? 2 : 1;

template <typename In, int kUnit, ColumnMode kMode>
__global__ void __launch_bounds__(MostColumnThreads(kMode, sizeof(In)), kColumnBlocks<kMode>)
    ColumnMatrixKernel(const __grid_constant__ ColumnParams params) {
  using C = ComputeOf<In>;
  static_assert(sizeof(Normalizer<C>) <= kStripRowBytes, "planned for");
  // On lines of 128 bytes: with the strips 16 bytes past them kernels took 2 to 17 % more time, 32 bytes past them up
  // to 4 %.
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ alignas(Scale<C>) unsigned char scale[sizeof(Scale<C>)];
  __shared__ std::uint64_t barrier;
  WaitForEarlierLaunches();
  AllowNextLaunch();
  // The strip's first barrier comes before anyone uses the scale.
  if (threadIdx.x == 0) {
    if constexpr (sizeof(C) == 8) {
      new (scale) Scale<C>(params.scale_double);
    } else {
      new (scale) Scale<C>(params.scale_float);
    }
  }
  ColumnMatrix<In, kUnit, kMode>(params, shared, &barrier, *reinterpret_cast<const Scale<C>*>(scale)).Run();
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
