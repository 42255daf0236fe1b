#pragma once

#include "kernels/cuda/column_few.cuh"
#include "kernels/cuda/column_fold.cuh"
#include "kernels/cuda/column_results.cuh"
#include "kernels/cuda/column_stats.cuh"
#include "kernels/cuda/column_sums.cuh"

// The kernels over another axis (column_matrix.cuh), named for one type.
namespace softmax::kernels::cuda {

// Blocks a multiprocessor has to hold.
template <typename In, ColumnMode kMode>
constexpr int kColumnBlocks = kMode == ColumnMode::kSteps ? 1
                              : sizeof(In) == 8           ? 2
                                                          : 3;

template <typename In, int kUnit, ColumnMode kMode>
__global__ void __launch_bounds__(MostColumnThreads(kMode), (kColumnBlocks<In, kMode>))
    ColumnMatrixKernel(const __grid_constant__ ColumnParams params) {
  using C = ComputeOf<In>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ alignas(Scale<C>) unsigned char scale[sizeof(Scale<C>)];
  __shared__ std::uint64_t barrier;
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

template <typename In, ColumnMode kMode>
const void* ColumnKernel(bool vectors) {
  return vectors ? reinterpret_cast<const void*>(&ColumnMatrixKernel<In, Element<In>::kVector, kMode>)
                 : reinterpret_cast<const void*>(&ColumnMatrixKernel<In, 1, kMode>);
}

template <typename In, int kColumns>
const void* FewKernel(bool vectors, bool log) {
  return log ? ColumnFewKernelOf<In, kColumns, true>(vectors) : ColumnFewKernelOf<In, kColumns, false>(vectors);
}

template <typename In>
const ColumnKernels& ColumnKernelsOf() {
  static_assert(sizeof(Normalizer<ComputeOf<In>>) <= kStripRowBytes, "planned for");
  static const ColumnKernels kernels{
      {ColumnKernel<In, ColumnMode::kSmall>(false), ColumnKernel<In, ColumnMode::kSmall>(true),
       ColumnKernel<In, ColumnMode::kKept>(false), ColumnKernel<In, ColumnMode::kKept>(true),
       ColumnKernel<In, ColumnMode::kSteps>(false), ColumnKernel<In, ColumnMode::kSteps>(true)},
      {FewKernel<In, 8>(false, false), FewKernel<In, 8>(true, false), FewKernel<In, 8>(false, true),
       FewKernel<In, 8>(true, true), FewKernel<In, 16>(false, false), FewKernel<In, 16>(true, false),
       FewKernel<In, 16>(false, true), FewKernel<In, 16>(true, true), FewKernel<In, 32>(false, false),
       FewKernel<In, 32>(true, false), FewKernel<In, 32>(false, true), FewKernel<In, 32>(true, true)}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
