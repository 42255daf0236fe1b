#pragma once

#include "kernels/cuda/complete.cuh"
#include "kernels/cuda/matrix_small.cuh"

// Rows of two chunks in one warp, for elements of 16 bits: where the second chunk holds few columns, a warp of its own
// would be mostly idle.
namespace softmax::kernels::cuda {

// Blocks that a multiprocessor has to hold.
template <int kSlots, bool kSkew>
constexpr int kDoubleBlocks = !kSkew                      ? 0
                              : kSlots == kChunkSlots + 1 ? 4
                                                          : 3;

template <typename In, int kSlots, bool kSkew, bool kLog>
__global__ void __launch_bounds__(kMatrixThreads, (kDoubleBlocks<kSlots, kSkew>))
    DoubleMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  // Whether there are registers for both chunks' statistics and all vectors' results at the same time.
  constexpr bool kFew = kSkew && kSlots <= kChunkSlots + 2;
  const Scale<C> scale = ScaleOf<C>(params);
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  const int row = static_cast<int>(blockIdx.x) * kBlockWarps + static_cast<int>(threadIdx.x) / 32;
  AskAhead<In>(params);
  BeginAccess(params);
  if (row < params.rows) {
    const auto valid = static_cast<int>(ValidLength(params, row));
    const In* const input = static_cast<const In*>(params.input) + row * params.input_stride;
    RowPart<In, kSlots, kSkew> part;
    part.template Load<kFew ? kChunkSlots : 0>(part.PlaceOf(input, valid, AroundOf<In>(params, row, 0, valid), lanes),
                                               lanes);
    // The extra care of log-softmax comes after both chunks, which can then wait at the same time.
    constexpr bool kCareful = kLog && !kFew;
    Stats<C> first = part.template FirstStats<kChunkSlots, kCareful>(valid, lanes, scale);
    const Stats<C> second = part.template ChunkStats<kSlots - kChunkSlots>(kChunkSlots, lanes, scale);
    if (kFew && kLog && valid <= kPreciseColumns) {
      uint4 v[1];
      part.Vectors(0, v);
      first = PreciseStats<In, false>(v, lanes, scale);
    }
    part.Forget();
    // As FoldFlat() folds two.
    const Stats<C> stats = CombineLanes((lanes.lane & 1) == 0 ? first : second, scale, 2);
    const Normalizer<C> normalize(scale, stats, kLog, valid == 0);
    // The two ways' common arithmetic would be done before both, and kept.
    const bool plain = kFew && valid == params.cols && (!kLog || normalize.IsPlain());
    if (!plain) {
      In* const output = static_cast<In*>(params.output) + row * params.output_stride;
      part.Store(output, params.cols, valid, true, lanes, normalize);
    }
    part.Forget();
    if (plain) part.StoreRow(static_cast<In*>(params.output) + row * params.output_stride, valid, lanes, normalize);
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
