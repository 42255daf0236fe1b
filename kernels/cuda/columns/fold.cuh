#pragma once

#include "kernels/cuda/columns/matrix.cuh"

// How a strip's rows come to their statistics from those of their parts.
namespace softmax::kernels::cuda {

// The statistics of a step's parts from those of their tasks.

// The sum over the tasks of a part's row, `pitch` apart: those half of all apart come first, as in the tree.
template <int kTasks, int kStep = 1>
__device__ __forceinline__ double TreeSum(const double* p, int pitch) {
  if constexpr (kStep == kTasks) {
    return *p;
  } else {
    return TreeSum<kTasks, kStep * 2>(p, pitch) + TreeSum<kTasks, kStep * 2>(p + kStep * pitch, pitch);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ double ColumnMatrix<In, kUnit, kMode>::TaskSum(const double* p) const {
  switch (tasks_.lane_tasks_log) {
    case 0:
      return *p;
    case 1:
      return TreeSum<2>(p, params_.strip);
    case 2:
      return TreeSum<4>(p, params_.strip);
    case 3:
      return TreeSum<8>(p, params_.strip);
    case 4:
      return TreeSum<16>(p, params_.strip);
    default:
      return TreeSum<32>(p, params_.strip);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::Reduce(int step) {
  const int parts = StepParts(step);
  const bool all_precise = segment_.log != 0 && segment_.cols <= kPreciseColumns;
  if (!all_precise) {
    const Place first = PlaceOf(warp_, parts);
    Maxima(step, parts, first);
    __syncthreads();
    Sums(step, parts, first);
    __syncthreads();
  }
  if (kSmall) {
    TakeRows(parts);
  } else {
    TakeStep(step, parts);
  }
  // A precise sum still reads the tile.
  if (!kSmall && segment_.log != 0 && step == 0) __syncthreads();
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ Stats<ComputeOf<In>> ColumnMatrix<In, kUnit, kMode>::PartStats(int part, int row) const {
  const C max = maxima_[part * params_.strip + row];
  const double sum = TaskSum(sums_ + ((part << tasks_.lane_tasks_log) * params_.strip + row));
  return {max, static_cast<C>(sum * ExpBase<C>(max, scale_).correction)};
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ bool ColumnMatrix<In, kUnit, kMode>::IsPrecise(int index, int row) const {
  return segment_.log != 0 && FirstColumn(index) == 0 && ValidLength(segment_, Row(index, row)) <= kPreciseColumns;
}

// What PreciseStats gives, by one thread for a row of the step.
template <typename In, int kUnit, ColumnMode kMode>
__device__ RowStats<ComputeOf<In>> ColumnMatrix<In, kUnit, kMode>::PreciseRow(int step, int part, int row) const {
  const int index = IndexOf(step, part);
  const int limit = Limit(index, Columns(index), row);
  const unsigned char* const p = Part(step, part) + row * kSize;
  C max = -Infinity<C>();
  for (int c = 0; c < limit; ++c) max = fmax(max, ToCompute(*reinterpret_cast<const In*>(p + c * params_.pitch)));
  const TwoPart<C> sum = PreciseSum(p, limit, max);
  if (sizeof(C) == 4 && segment_.cols <= kNarrowColumns) return {max, sum.high, sum.low};
  return {max, sum.high + sum.low, C(0)};
}

// Columns 4 apart are added first, then 2, 1.
template <typename In, int kUnit, ColumnMode kMode>
__device__ TwoPart<ComputeOf<In>> ColumnMatrix<In, kUnit, kMode>::PreciseSum(const unsigned char* p, int limit,
                                                                             C max) const {
  constexpr int kBits = 3;
  static_assert(kPreciseColumns <= 1 << kBits, "the order of columns");
  TwoPart<C> waiting[kBits + 1];
#pragma unroll 1
  for (int k = 0; k < 1 << kBits; ++k) {
    const int column = static_cast<int>(__brev(k) >> (32 - kBits));
    TwoPart<C> sum;
    if (column < limit) {
      const In x = *reinterpret_cast<const In*>(p + column * params_.pitch);
      if constexpr (sizeof(C) == 4) {
        sum.high = segment_.cols <= kNarrowColumns ? NarrowExp<In>(ToCompute(x), max, scale_)
                                                   : scale_.PreciseExp(ToCompute(x), MaxPre(max, scale_));
      } else {
        sum.high = scale_.PreciseExp(ToCompute(x), MaxPre(max, scale_));
      }
    }
    AddInTurn<kBits>(k, sum, waiting, [](TwoPart<C>& x, const TwoPart<C>& y) { x.Add(y.high, y.low); });
  }
  return waiting[kBits];
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ClearTable() const {
  for (int i = static_cast<int>(threadIdx.x); i < params_.table_entries * params_.strip; i += threads_) {
    const int entry = Quotient(i, params_.rows);
    const bool gathers = params_.grouped && entry < kGroupChunks;
    if (!gathers && (entry & ((1 << params_.cluster_log) - 1)) != rank_) continue;
    table_[i] = NoStats<C>();
    if constexpr (kHasChainSums) chain_sums_[i] = 0;
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::Finish(int index, int row, const RowStats<C>& stats) {
  const bool empty = ValidLength(segment_, Row(index, row)) == 0;
  const int at = (kSmall ? index * params_.strip : 0) + row;
  const Normalizer<C>& done = *new (rows_ + at) Normalizer<C>(scale_, stats, segment_.log != 0, empty);
  terms_[at] = TermsOf<In>(done);
  usual_ = usual_ && (empty || IsUsual<In>(done));  // of an empty one all is masked
}

template <typename In, int kUnit, ColumnMode kMode>
template <typename F>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::ForRows(int count, F f) const {
  for (int i = static_cast<int>(threadIdx.x); i < count * params_.strip; i += threads_) {
    const int k = Quotient(i, params_.rows);
    const int row = i - k * params_.strip;
    if (row < width_) f(k, row);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ RowStats<ComputeOf<In>> ColumnMatrix<In, kUnit, kMode>::AnyStats(int step, int part,
                                                                                            int row) const {
  if (IsPrecise(IndexOf(step, part), row)) return PreciseRow(step, part, row);
  return PartStats(part, row);
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::TakeRows(int parts) {
  ForRows(parts, [&](int part, int row) { Finish(part, row, AnyStats(0, part, row)); });
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::TakeStep(int step, int parts) {
  // Parts so far apart have the same entry. Those of a group have each their own.
  const int apart = kFoldLanes >> (params_.grouped ? 0 : params_.cluster_log);
  ForRows(parts < apart ? parts : apart, [&](int first, int row) {
    const int chunk = ChunkAt(IndexOf(step, first));
    const int entry = chunk % kFoldLanes;
    const Stats<C> stats = AnyStats(step, first, row);
    auto chain = Chain<C>::From(stats);
    if (!params_.grouped && chunk >= kFoldLanes) {
      chain = ChainAt(entry, row);
      chain.Add(stats, scale_);
    }
    for (int part = first + apart; part < parts; part += apart) chain.Add(PartStats(part, row), scale_);
    Keep(entry, row, chain);
  });
  if (params_.grouped) EndGroup(IndexOf(step, parts - 1));
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ void ColumnMatrix<In, kUnit, kMode>::EndGroup(int last) {
  const int chunk = ChunkAt(last);
  if (chunk % kGroupChunks != kGroupChunks - 1 && last != mine_ - 1) return;
  __syncthreads();
  for (int row = warp_; row < width_; row += threads_ / 32) {
    const Stats<C> all = CombineLanes(*Entry(lane_, row), scale_);
    *Entry(lane_, row) = NoStats<C>();
    if (lane_ != 0) continue;
    const int accumulator = kGroupChunks + chunk / kGroupChunks % kAccumulators;
    Chain<C> chain = ChainAt(accumulator, row);
    chain.Add(all, scale_);
    Keep(accumulator, row, chain);
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ void ColumnMatrix<In, kUnit, kMode>::SendTable() const {
  const int first = params_.grouped ? kGroupChunks : 0;
  const int own = Entries() >> params_.cluster_log;
  ForRows(own, [&](int k, int row) {
    Stats<C>* const entry = Entry(first + rank_ + (k << params_.cluster_log), row);
    exchange_.Send(entry, *entry, 1 << params_.cluster_log);
  });
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::FoldRows() {
  const bool grouped = params_.grouped;
  __syncthreads();
  if (IsCluster()) {
    SendTable();
    exchange_.Wait();
  }
  const int first = grouped ? kGroupChunks : 0;
  const int entries = Entries();
  const int lanes = params_.table_entries < kFoldLanes ? params_.table_entries : kFoldLanes;
  const int lanes_log = 31 - __clz(lanes);
  const int lane = lane_ & (lanes - 1);
  // Whole warps go along; rows beyond the strip are empty.
  for (int base = warp_ * 32; base < width_ << lanes_log; base += threads_) {
    const int row = (base + lane_) >> lanes_log;
    Stats<C> mine = NoStats<C>();
    if (row < width_ && lane < entries) {
      mine = *Entry(first + lane, row);
      if (grouped) mine = CombineTwo(mine, *Entry(first + lane + kFoldLanes, row), scale_);
    }
    const Stats<C> stats = CombineLanes(mine, scale_, lanes);
    if (row < width_ && lane == 0) Finish(0, row, stats);
  }
}

}  // namespace softmax::kernels::cuda
