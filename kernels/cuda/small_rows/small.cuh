#pragma once

#include "kernels/cuda/blocks/matrix.cuh"

// Small rows of one matrix: a group of lanes per row, everything in registers. Each group takes kRows rows at a time,
// so that narrow rows too have enough loads in flight.
namespace softmax::kernels::cuda {

template <typename In, int kSlots, bool kSkew, LogForm kLogForm, int kRows, bool kMixed>
__global__ void __launch_bounds__(kMatrixThreads) SmallMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  const bool log = IsLog<kLogForm>(params);
  // Several rows at a time leave no registers for it.
  if constexpr (kRows == 1) AskAhead<In>(params);
  const Scale<C> scale = ScaleOf<C>(params);
  // Fewer lanes than a warp's hold at most three vectors each: see RowLanes().
  const int lane_count = kSlots > 4 ? 32 : params.lanes;
  const Lanes lanes{static_cast<int>(threadIdx.x) & (lane_count - 1), lane_count};
  constexpr bool kMayBeFew = kRows == 1 && kSlots <= kMostFewSlots;
  const int threads = kMayBeFew ? static_cast<int>(blockDim.x) : SmallThreads(sizeof(In), kSlots, kSkew, log);
  const int groups = threads / lane_count;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (groups * kRows) + threadIdx.x / lane_count;
  // Whether the exponentials stay in registers: not where that costs a block on each multiprocessor.
  constexpr bool kKeeps = !kMixed && (sizeof(In) != 2 || !kSkew || kRows == 1);
  RowPart<In, kSlots, kSkew> part[kRows];
  int valid[kRows];
  BeginAccess(params);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    // Lanes without a row go along with an empty one: the shuffles need whole warps.
    const std::int64_t row = first + r * groups;
    valid[r] = row < params.rows ? static_cast<int>(ValidLength(params, row)) : 0;
    const In* const input = static_cast<const In*>(params.input) + row * params.input_stride;
    part[r].Load(part[r].PlaceOf(input, valid[r], AroundOf<In>(params, row, 0, valid[r]), lanes), lanes);
  }
  if constexpr (kMixed) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * groups;
      const int careful = log ? valid[r] : kManyColumns;
      const RowStats<C> stats = part[r].template FirstStats<kSlots, kSlots == 1>(careful, lanes, scale);
      part[r].Forget();
      const Normalizer<C> normalize(scale, stats, log, valid[r] == 0);
      const int cols = row < params.rows ? static_cast<int>(params.cols) : 0;
      ForOutput<In, true>(params, row, [&](auto* output) {
        part[r].template StoreMixed<true>(output, cols, valid[r], true, lanes, normalize);
      });
    }
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * groups;
      In* const output = static_cast<In*>(params.output) + row * params.output_stride;
      if (log || !kKeeps) {
        const int careful = log ? valid[r] : kManyColumns;
        const RowStats<C> stats = part[r].template FirstStats<kSlots, kSlots == 1>(careful, lanes, scale);
        part[r].Forget();
        if (row >= params.rows) continue;
        const Normalizer<C> normalize(scale, stats, log, valid[r] == 0);
        part[r].Store(output, params.cols, valid[r], true, lanes, normalize);
      } else {
        C y[RowPart<In, kSlots, kSkew>::kCount][Element<In>::kVector];
        const Stats<C> stats = part[r].Exponentials(lanes, scale, y);
        if (row >= params.rows) continue;
        const Normalizer<C> normalize(scale, stats, false, valid[r] == 0);
        part[r].StoreProducts(output, params.cols, valid[r], lanes, normalize, y);
      }
    }
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
