#pragma once

#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/small_rows/small.cuh"

// Small rows of 32 lanes where there are so few that each may have a block: a warp for each of a lane's vectors, so
// that no lane has more than one to work on. Sums run over the vectors in order all the same, through shared memory.
namespace softmax::kernels::cuda {

template <typename In, bool kSkew, LogForm kLogForm>
__global__ void __launch_bounds__(kMatrixThreads) SplitMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  constexpr int kSlots = SmallSlots(sizeof(In));
  __shared__ C maxima[kSlots];
  __shared__ Stats<C> precise;
  // By slot, then by 16 bytes of a vector's exponentials, then by lane.
  struct alignas(16) Words {
    C values[kVectorBytes / sizeof(C)];
  };
  constexpr int kWords = kVector * static_cast<int>(sizeof(C)) / kVectorBytes;
  constexpr int kEach = kVectorBytes / static_cast<int>(sizeof(C));
  __shared__ Words exps[kSlots][kWords][32];

  const bool log = IsLog<kLogForm>(params);
  const Scale<C> scale = ScaleOf<C>(params);
  const int slot = static_cast<int>(threadIdx.x) / 32;
  const int slots = static_cast<int>(blockDim.x) / 32;
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  const std::int64_t row = blockIdx.x;
  const int column = slot * 32 * kVector;
  AskAhead<In>(params);
  BeginAccess(params);
  const int valid = static_cast<int>(ValidLength(params, row));
  const int n = valid - column;
  const In* const input = static_cast<const In*>(params.input) + row * params.input_stride + column;
  RowPart<In, 1, kSkew> part;
  part.Load(part.PlaceOf(input, n, AroundOf<In>(params, row, column, n), lanes), lanes);

  uint4 v[1];
  part.Vectors(0, v);
  C max = LaneMax(LaneMaximum<In, 1, true>(v, 0, lanes), 32);
  if (lanes.lane == 0) maxima[slot] = max;
  if (log) {
    if (valid <= kPreciseColumns && slot == 0) {
      const Stats<C> stats = PreciseStats<In, false>(v, lanes, scale);
      if (lanes.lane == 0) precise = stats;
    }
  }
  __syncthreads();
  max = maxima[0];
  for (int j = 1; j < slots; ++j) max = fmax(max, maxima[j]);

  const ExpBase<C> base(max, scale);
  C sums[kVector];
  LaneExpSums<In, 1, true, true>(v, 0, lanes, base, scale, sums);
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    Words words;
#pragma unroll
    for (int e = 0; e < kEach; ++e) words.values[e] = sums[i * kEach + e];
    exps[slot][i][lanes.lane] = words;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      if (j >= slots) break;
      const Words words = exps[j][i][lanes.lane];
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        sums[i * kEach + e] = j == 0 ? words.values[e] : sums[i * kEach + e] + words.values[e];
    }
  }
  if constexpr (kSkew) RotateSums<In>(part.skip(), lanes, sums);
  Stats<C> stats{max, static_cast<C>(LaneSum(PlacesSum(sums), 32) * base.correction)};
  if (log) {
    if (valid <= kPreciseColumns) stats = precise;
  }
  const Normalizer<C> normalize(scale, stats, log, valid == 0);
  part.Store(static_cast<In*>(params.output) + row * params.output_stride + column, params.cols - column, n, slot == 0,
             lanes, normalize);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
