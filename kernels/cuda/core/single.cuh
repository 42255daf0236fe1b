#pragma once

#include "kernels/cuda/core/row_part.cuh"

// Doubles one by one, where rows miss the 16-byte boundaries: a lane has every lanes.count-th column. Its even ones,
// counted so, belong to the first half of the lanes that would hold the row's vectors elsewhere, the odd ones to the
// second, and neighbouring lanes have the two places of a vector.
namespace softmax::kernels::cuda {

// A good sum of the exponentials of at most kPreciseColumns columns, as PreciseStats() has it; `x` is the lane's first
// column, the others are -inf. Eight lanes or more.
__device__ __forceinline__ double PreciseSinglesSum(double x, double max, Lanes lanes, const Scale<double>& scale) {
  TwoPart<double> sum;
  sum.high = scale.PreciseExp(x, MaxPre(max, scale));
  for (int offset = lanes.count >> 1; offset > 0; offset >>= 1) {
    sum.Add(__shfl_xor_sync(0xffffffffu, sum.high, offset), __shfl_xor_sync(0xffffffffu, sum.low, offset));
  }
  return sum.high + sum.low;
}

// What VectorsStats() gives for kCount neighbouring chunks, of which the first `n` columns count. kWhole: that is all
// of them. A whole warp calls it.
template <int kCount, bool kWhole>
__device__ __forceinline__ void SingleChunksStats(const double* chunk, int n, const Scale<double>& scale,
                                                  Stats<double> (&stats)[kCount]) {
  constexpr int kChunk = Element<double>::kChunk;
  constexpr int kSteps = kChunk / 64;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto at = [&](int i, int column) {
    const int c = i * kChunk + column + lane;
    return kWhole || c < n ? chunk[c] : -Infinity<double>();
  };
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    stats[i].max = -Infinity<double>();
#pragma unroll
    for (int j = 0; j < 2 * kSteps; ++j) stats[i].max = Larger(stats[i].max, at(i, j * 32));
  }
  WarpMaxima(stats);
  double sums[kCount][2] = {};
#pragma unroll 2
  for (int j = 0; j < kSteps; ++j) {
    if (!kWhole && j * 64 >= n) break;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const ExpBase<double> base(stats[i].max, scale);
      sums[i][0] += base.Exp(at(i, j * 64), scale);
      sums[i][1] += base.Exp(at(i, j * 64 + 32), scale);
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    sums[i][0] += __shfl_xor_sync(0xffffffffu, sums[i][0], 1);
    sums[i][1] += __shfl_xor_sync(0xffffffffu, sums[i][1], 1);
    stats[i].sum = sums[i][0] + sums[i][1];
  }
#pragma unroll
  for (int offset = 16; offset > 1; offset >>= 1) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) stats[i].sum += __shfl_xor_sync(0xffffffffu, stats[i].sum, offset);
  }
}
// The same for a chunk of which `n` columns count; `valid`: the row's, if the chunk begins it.
template <bool kLog>
__device__ __forceinline__ Stats<double> SingleChunkStats(const double* chunk, int n, std::int64_t valid,
                                                          const Scale<double>& scale) {
  Stats<double> stats[1];
  SingleChunksStats<1, false>(chunk, n, scale, stats);
  if (kLog && valid <= kPreciseColumns) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const double x = lane < n ? chunk[lane] : -Infinity<double>();
    stats[0].sum = PreciseSinglesSum(x, stats[0].max, Lanes{lane, 32}, scale);
  }
  return stats[0];
}

}  // namespace softmax::kernels::cuda
