#pragma once

#include "kernels/cuda/column_fold.cuh"
#include "kernels/cuda/column_results.cuh"

// The kernels over another axis (column_matrix.cuh), named for one type.
namespace softmax::kernels::cuda {

// Blocks a multiprocessor has to hold.
template <typename In>
constexpr int kColumnBlocks = sizeof(In) == 8 ? 2 : 3;

template <typename In, int kUnit>
__global__ void __launch_bounds__(kBlockThreads, kColumnBlocks<In>)
    ColumnMatrixKernel(const __grid_constant__ ColumnParams params) {
  using C = ComputeOf<In>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ alignas(Scale<C>) unsigned char scale[sizeof(Scale<C>)];
  __shared__ typename ColumnMatrix<In, kUnit>::Strip strip;
  if (threadIdx.x == 0) {
    strip = ColumnMatrix<In, kUnit>::StripOf(params);
    if constexpr (sizeof(C) == 8) {
      new (scale) Scale<C>(params.scale_double);
    } else {
      new (scale) Scale<C>(params.scale_float);
    }
  }
  __syncthreads();
  ColumnMatrix<In, kUnit>(params, shared, strip, *reinterpret_cast<const Scale<C>*>(scale)).Run();
  Complete(params.completion);
}

template <typename In>
const ColumnKernels& ColumnKernelsOf() {
  static_assert(sizeof(Normalizer<ComputeOf<In>>) <= kStripRowBytes, "planned for");
  static const ColumnKernels kernels{{reinterpret_cast<const void*>(&ColumnMatrixKernel<In, 1>),
                                      reinterpret_cast<const void*>(&ColumnMatrixKernel<In, Element<In>::kVector>)}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
