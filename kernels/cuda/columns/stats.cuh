#pragma once

#include "kernels/cuda/columns/matrix.cuh"

// The statistics of a step's parts from those of their tasks.
namespace softmax::kernels::cuda {

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
    if (!IsEarly()) {
      Maxima(step, parts, first);
      __syncthreads();
    }
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

}  // namespace softmax::kernels::cuda
