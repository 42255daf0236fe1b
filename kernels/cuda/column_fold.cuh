#pragma once

#include "kernels/cuda/column_matrix.cuh"

// How a strip's rows come to their statistics from those of their parts.
namespace softmax::kernels::cuda {

template <typename In, int kUnit>
__device__ Stats<ComputeOf<In>>* ColumnMatrix<In, kUnit>::Entry(int entry, int row) const {
  return table_ + entry * params_.strip + row;
}

template <typename In, int kUnit>
__device__ __forceinline__ void ColumnMatrix<In, kUnit>::ClearTable() const {
  for (int i = static_cast<int>(threadIdx.x); i < params_.table_entries * params_.strip; i += kBlockThreads) {
    table_[i] = NoStats<C>();
  }
}

template <typename In, int kUnit>
__device__ __forceinline__ void ColumnMatrix<In, kUnit>::Finish(int index, int row, Stats<C> stats) {
  const bool empty = ValidLength(segment_, Row(index, row)) == 0;
  new (rows_ + (params_.small ? index * params_.strip : 0) + row)
      Normalizer<C>(scale_, stats, segment_.log != 0, empty);
}

template <typename In, int kUnit>
__device__ __forceinline__ void ColumnMatrix<In, kUnit>::Take(int index, int row, Stats<C> stats) {
  if (params_.small) {
    Finish(index, row, stats);
    return;
  }
  const int chunk = ChunkAt(index);
  Stats<C>* const entry = Entry(chunk % 32, row);
  *entry = params_.grouped || chunk < 32 ? stats : CombineTwo(*entry, stats, scale_);
}

template <typename In, int kUnit>
__device__ void ColumnMatrix<In, kUnit>::EndGroup(int last) {
  const int chunk = ChunkAt(last);
  if (chunk % kGroupChunks != kGroupChunks - 1 && last != strip_.mine - 1) return;
  __syncthreads();
  for (int row = warp_; row < strip_.width; row += kBlockWarps) {
    const Stats<C> all = CombineLanes(*Entry(lane_, row), scale_);
    *Entry(lane_, row) = NoStats<C>();
    if (lane_ != 0) continue;
    Stats<C>* const accumulator = Entry(32 + chunk / kGroupChunks % kAccumulators, row);
    *accumulator = CombineTwo(*accumulator, all, scale_);
  }
}

template <typename In, int kUnit>
__device__ void ColumnMatrix<In, kUnit>::Share(int first, int entries) const {
#if __CUDA_ARCH__ >= 900
  const int own = entries / team_.blocks * strip_.width;
  for (int i = static_cast<int>(threadIdx.x); i < own; i += kBlockThreads) {
    const int k = i / strip_.width;
    Stats<C>* const entry = Entry(first + strip_.rank + k * team_.blocks, i - k * strip_.width);
    const Stats<C> stats = *entry;
    for (int other = 0; other < team_.blocks; ++other) {
      if (other != strip_.rank) *cooperative_groups::this_cluster().map_shared_rank(entry, other) = stats;
    }
  }
#endif
}

template <typename In, int kUnit>
__device__ __forceinline__ void ColumnMatrix<In, kUnit>::FoldRows() {
  const int first = params_.grouped ? 32 : 0;
  const int entries = params_.table_entries - first;
  __syncthreads();
  if (team_.IsCluster()) {
    Share(first, entries);
    team_.Sync();
  }
  const int lanes = entries < 32 ? entries : 32;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  // Whole warps go along; rows beyond the strip are empty.
  for (int base = warp_ * 32; base < strip_.width * lanes; base += kBlockThreads) {
    const int row = (base + lane_) / lanes;
    Stats<C> mine = NoStats<C>();
    if (row < strip_.width) {
      mine = *Entry(first + lane, row);
      if (params_.grouped) mine = CombineTwo(mine, *Entry(first + lane + 32, row), scale_);
    }
    const Stats<C> stats = CombineLanes(mine, scale_, lanes);
    if (row < strip_.width && lane == 0) Finish(0, row, stats);
  }
}

}  // namespace softmax::kernels::cuda
