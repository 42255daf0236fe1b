#pragma once

#include <cstdint>

#include "kernels/cuda/blocks/exchange.cuh"
#include "kernels/cuda/blocks/team.cuh"

// The statistics of a row's chunks, brought together in every block of the team that shares the row: through the
// block's own shared memory, or sent to all blocks of a cluster, each of which waits for the bytes that must come.
namespace softmax::kernels::cuda {

// A sum as Stats<float> holds it, left in a double: to round its bits takes half as long as to convert it there and
// back. Not for what is a subnormal number as a float; no such sum is.
__device__ __forceinline__ double RoundToFloat(double sum) {
  auto bits = static_cast<std::uint64_t>(__double_as_longlong(sum));
  bits += 0x0fffffff + (bits >> 29 & 1);  // half of the last place that stays, less where that is even
  return __longlong_as_double(static_cast<std::int64_t>(bits & ~std::uint64_t{0x1fffffff}));
}

// What Chain::Add() gives from entry to entry: only the sums wait for each other.
template <int kCount>
__device__ __forceinline__ void CombineMany(const Stats<float> (&next)[kCount], const Scale<float>& scale, float* max,
                                            double* sum) {
  double factors[kCount];
  double terms[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    // The larger one's own factor is 1.
    const bool is_larger = next[i].max > *max;
    const float smaller = is_larger ? *max : next[i].max;
    *max = Larger(*max, next[i].max);
    const double factor = scale.Exp(smaller, MaxPre(*max, scale));
    factors[i] = is_larger ? factor : 1.0;
    terms[i] = next[i].sum * (is_larger ? 1.0 : factor);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) *sum = fma(*sum, factors[i], terms[i]);
}

// What FoldFlat() gives for more than 16 chunks. kMaximaFirst: the factors are known before the sums, in more
// registers.
template <int kAtOnce, bool kMaximaFirst>
__device__ __forceinline__ Stats<float> FoldMany(const Stats<float>* table, int chunks, int lane,
                                                 const Scale<float>& scale) {
  const Stats<float> mine = lane < chunks ? table[lane] : NoStats<float>();
  float max = mine.max;
  double sum = mine.sum;
  float row_max = 0;
  double factor = 0;
  if constexpr (kMaximaFirst) {
    float lane_max = max;
#pragma unroll 4
    for (int i = lane + 32; i < chunks; i += 32) lane_max = Larger(lane_max, table[i].max);
    row_max = LaneMax(lane_max, 32);
    factor = scale.Exp(lane_max, MaxPre(row_max, scale));
  }
#pragma unroll 1
  for (int first = lane + 32; first < chunks; first += 32 * kAtOnce) {
    Stats<float> next[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      next[i] = first + 32 * i < chunks ? table[first + 32 * i] : NoStats<float>();
    }
    CombineMany(next, scale, &max, &sum);
  }
  __syncwarp();
  if constexpr (kMaximaFirst) return {row_max, static_cast<float>(LaneSum(RoundToFloat(sum) * factor, 32))};
  return CombineLanes(Stats<float>{max, static_cast<float>(sum)}, scale);
}

template <typename C>
class ChunkTable {
 public:
  // In shared memory.
  struct Control {
    std::uint64_t barrier;
    Stats<C> row;
  };

  // `table`: an entry for each chunk, in shared memory; one row of a block's several.
  __device__ __forceinline__ ChunkTable(Stats<C>* table, Control* control, Team team)
      : table_(table), control_(control), team_(team), exchange_(&control->barrier) {}

  // By the whole block, early: `chunks` entries will come.
  __device__ __forceinline__ void Arrive(int chunks) const {
    if (!team_.IsCluster()) return;
    exchange_.Expect(chunks * static_cast<int>(sizeof(Stats<C>)));
    ClusterExchange::Arrive();
  }
  // By the whole block, before the first Publish.
  __device__ __forceinline__ void Begin() const {
    if (team_.IsCluster()) exchange_.Begin();
  }
  // By a whole warp with the same arguments.
  __device__ __forceinline__ void Publish(int entry, const Stats<C>& stats) const {
    if (team_.IsCluster()) {
      exchange_.SendFromWarp(table_ + entry, stats, team_.blocks);
    } else if (threadIdx.x % 32 == 0) {
      table_[entry] = stats;
    }
  }
  // By the whole block: the statistics of the row whose chunks are the entries from `first` on. Where folding them is
  // long, or a cluster shares the row and other blocks have use for the time of the warps, one warp does it for the
  // block, which then has one row.
  __device__ __forceinline__ Stats<C> Fold(int first, int chunks, const Scale<C>& scale) const {
    const bool is_busy = team_.IsCluster() && gridDim.x > kFewBlocks;
    const bool by_all = chunks <= kFoldedByAll && !is_busy;
    if (!team_.IsCluster()) __syncthreads();
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Stats<C> stats;
    if (by_all || threadIdx.x < 32) {
      if (team_.IsCluster()) exchange_.Wait();
      if constexpr (sizeof(C) == 4) {
        stats = chunks <= kFoldedByAll ? FoldFlat(table_ + first, chunks, lane, scale)
                                       : FoldMany<4, false>(table_ + first, chunks, lane, scale);
      } else {
        stats = FoldFlat(table_ + first, chunks, lane, scale);
      }
    }
    if (by_all) return stats;
    if (threadIdx.x == 0) control_->row = stats;
    __syncthreads();
    return control_->row;
  }

 private:
  // Up to so many, a barrier more takes longer than what the warps take from each other.
  static constexpr int kFoldedByAll = 128;
  static constexpr unsigned kFewBlocks = 1024;  // of the launch

  Stats<C>* table_;
  Control* control_;
  Team team_;
  ClusterExchange exchange_;
};

}  // namespace softmax::kernels::cuda
