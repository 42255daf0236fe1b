#pragma once

#include "kernels/cuda/complete.cuh"
#include "kernels/cuda/matrix_small.cuh"

// Rows of two chunks in one warp, for elements of 16 bits: where the second chunk holds few columns, a warp of its own
// would be mostly idle.
namespace softmax::kernels::cuda {

template <typename In, int kSlots, bool kSkew, bool kLog>
__global__ void __launch_bounds__(kMatrixThreads, (kSkew && kSlots > 6 ? 3 : 0))
    DoubleMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  const Scale<C> scale = ScaleOf<C>(params);
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kBlockWarps + threadIdx.x / 32;
  BeginAccess(params);
  if (row < params.rows) {
    const auto valid = static_cast<int>(ValidLength(params, row));
    const In* const input = static_cast<const In*>(params.input) + row * params.input_stride;
    RowPart<In, kSlots, kSkew> part;
    part.Load(part.PlaceOf(input, valid, AroundOf<In>(params, row, 0, valid), lanes), lanes);
    const Stats<C> first = part.template FirstStats<kChunkSlots, kLog>(valid, lanes, scale);
    const Stats<C> second = part.template ChunkStats<kSlots - kChunkSlots>(kChunkSlots, lanes, scale);
    part.Forget();
    // As FoldFlat() folds two.
    const Stats<C> stats = CombineLanes((lanes.lane & 1) == 0 ? first : second, scale, 2);
    const Normalizer<C> normalize(scale, stats, kLog, valid == 0);
    part.Store(static_cast<In*>(params.output) + row * params.output_stride, params.cols, valid, true, lanes,
               normalize);
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
