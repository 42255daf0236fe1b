#pragma once

#include "kernels/cuda/column_matrix.cuh"

// How a strip's rows come to their statistics from those of their parts.
namespace softmax::kernels::cuda {

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ClearTable() const {
  if (SendsAtOnce()) return;
  for (int i = static_cast<int>(threadIdx.x); i < params_.table_entries * params_.strip; i += kBlockThreads) {
    const int entry = Quotient(i, params_.rows);
    const bool gathers = params_.grouped && entry < kGroupChunks;
    if (gathers || (entry & ((1 << params_.cluster_log) - 1)) == rank_) table_[i] = NoStats<C>();
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::Finish(int index, int row, Stats<C> stats) {
  const bool empty = ValidLength(segment_, Row(index, row)) == 0;
  const int at = (kSmall ? index * params_.strip : 0) + row;
  const Normalizer<C>& done = *new (rows_ + at) Normalizer<C>(scale_, stats, segment_.log != 0, empty);
  terms_[at] = TermsOf<In>(done);
  usual_ = usual_ && IsUsual<In>(done);
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::Take(int index, int row, Stats<C> stats) {
  if (kSmall) {
    Finish(index, row, stats);
    return;
  }
  const int chunk = ChunkAt(index);
  Stats<C>* const entry = Entry(chunk % kFoldLanes, row);
  if (SendsAtOnce()) {
    if (IsCluster()) {
      exchange_.Send(entry, stats, 1 << params_.cluster_log);
    } else {
      *entry = stats;
    }
    return;
  }
  *entry = params_.grouped || chunk < kFoldLanes ? stats : CombineTwo(*entry, stats, scale_);
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ void ColumnMatrix<In, kUnit, kMode>::EndGroup(int last) {
  const int chunk = ChunkAt(last);
  if (chunk % kGroupChunks != kGroupChunks - 1 && last != mine_ - 1) return;
  __syncthreads();
  for (int row = warp_; row < width_; row += kBlockWarps) {
    const Stats<C> all = CombineLanes(*Entry(lane_, row), scale_);
    *Entry(lane_, row) = NoStats<C>();
    if (lane_ != 0) continue;
    Stats<C>* const accumulator = Entry(kGroupChunks + chunk / kGroupChunks % kAccumulators, row);
    *accumulator = CombineTwo(*accumulator, all, scale_);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ void ColumnMatrix<In, kUnit, kMode>::SendTable() const {
  const int first = params_.grouped ? kGroupChunks : 0;
  const int own = Entries() >> params_.cluster_log;
  for (int i = static_cast<int>(threadIdx.x); i < own * params_.strip; i += kBlockThreads) {
    const int k = Quotient(i, params_.rows);
    const int row = i - k * params_.strip;
    if (row >= width_) continue;
    Stats<C>* const entry = Entry(first + rank_ + (k << params_.cluster_log), row);
    exchange_.Send(entry, *entry, 1 << params_.cluster_log);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FoldRows() {
  if (!IsCluster() || !SendsAtOnce()) __syncthreads();
  if (IsCluster()) {
    if (!SendsAtOnce()) SendTable();
    exchange_.Wait();
  }
  const int first = params_.grouped ? kGroupChunks : 0;
  const int entries = Entries();
  const int lanes = params_.table_entries < kFoldLanes ? params_.table_entries : kFoldLanes;
  const int lanes_log = 31 - __clz(lanes);
  const int lane = lane_ & (lanes - 1);
  // Whole warps go along; rows beyond the strip are empty.
  for (int base = warp_ * 32; base < width_ << lanes_log; base += kBlockThreads) {
    const int row = (base + lane_) >> lanes_log;
    Stats<C> mine = NoStats<C>();
    if (row < width_ && lane < entries) {
      mine = *Entry(first + lane, row);
      if (params_.grouped) mine = CombineTwo(mine, *Entry(first + lane + kFoldLanes, row), scale_);
    }
    const Stats<C> stats = CombineLanes(mine, scale_, lanes);
    if (row < width_ && lane == 0) Finish(0, row, stats);
  }
}

}  // namespace softmax::kernels::cuda
