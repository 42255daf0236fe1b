#pragma once

#include "kernels/cuda/columns/columns.h"
#include "kernels/cuda/columns/unit.cuh"

// What rows over another axis want rarely, element by element from the memory: sums with care and of unusual scales,
// results of rare forms and types. Not inlined, so that they take no registers elsewhere.
namespace softmax::kernels::cuda {

// A row's sum with care, as PreciseStats has it, of its first `valid` columns.
template <typename In>
__device__ __noinline__ RowStats<ComputeOf<In>> PreciseStatsOf(const ColumnParams& params, const In* row, int valid,
                                                               ComputeOf<In> max) {
  using C = ComputeOf<In>;
  constexpr int kBits = 3;
  static_assert(kPreciseColumns <= 1 << kBits, "the order of columns");
  const auto scale = ScaleOf<C>(params);
  const bool narrow = sizeof(C) == 4 && params.segment.cols <= kNarrowColumns;
  TwoPart<C> waiting[kBits + 1];
#pragma unroll 1
  for (int k = 0; k < 1 << kBits; ++k) {
    const int column = static_cast<int>(__brev(k) >> (32 - kBits));
    TwoPart<C> sum;
    if (column < valid) {
      const C x = ToCompute(row[column * params.segment.inner]);
      sum.high = scale.PreciseExp(x, MaxPre(max, scale));
      if constexpr (sizeof(C) == 4) {
        if (narrow) sum.high = NarrowExp<In>(x, max, scale);
      }
    }
    AddInTurn<kBits>(k, sum, waiting, [](TwoPart<C>& x, const TwoPart<C>& y) { x.Add(y.high, y.low); });
  }
  const TwoPart<C> sum = waiting[kBits];
  return narrow ? RowStats<C>{max, sum.high, sum.low} : RowStats<C>{max, sum.high + sum.low, C(0)};
}

// The sum of the exponentials of a part of a row, its first `columns`: of every `step`-th lane of the tree from `first`
// on, 8 at most, out of `lanes`.
template <typename In>
__device__ __noinline__ double SumOfLanes(const ColumnParams& params, const In* part, int columns, int first, int step,
                                          int lanes, ComputeOf<In> max) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  constexpr int kPlaceBits = kVector == 8 ? 3 : kVector / 2;
  constexpr int kLaneBits = 3;
  const auto add = [](double& x, double y) { x += y; };
  const auto scale = ScaleOf<C>(params);
  const ExpBase<C> base(max, scale);
  double sums[kLaneBits + 1];
#pragma unroll 1
  for (int k = 0; k < 1 << kLaneBits; ++k) {
    const int lane = first + static_cast<int>(__brev(k) >> (32 - kLaneBits)) * step;
    double places[kPlaceBits + 1];
#pragma unroll 1
    for (int i = 0; i < kVector; ++i) {
      C place = 0;
      int column = lane * kVector + static_cast<int>(__brev(i) >> (32 - kPlaceBits));
      for (; lane < lanes && column < columns; column += lanes * kVector) {
        const C x = ToCompute(part[column * params.segment.inner]);
        place += IsFast(scale) ? base.Exp(x, scale) : scale.Exp(x, base.max_pre);
      }
      AddInTurn<kPlaceBits>(i, static_cast<double>(place), places, add);
    }
    AddInTurn<kLaneBits>(k, places[kPlaceBits], sums, add);
  }
  return sums[kLaneBits];
}

// Writes every `step`-th vector of columns of a row, from `column` to `end`. The row's first results lie `output`
// elements behind that of the segment; `valid` of them are not masked.
template <typename In>
__device__ __noinline__ void WriteFromMemory(const ColumnParams& params, const In* row, std::int64_t output,
                                             std::int64_t column, std::int64_t end, int step, std::int64_t valid,
                                             RowStats<ComputeOf<In>> stats) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  const DeviceSegment& segment = params.segment;
  const auto scale = ScaleOf<C>(params);
  const Normalizer<C> normalize(scale, stats, segment.log != 0, valid == 0);
  ForAnyType(params.output_type, [&](auto* type) {
    const auto to = static_cast<decltype(type)>(segment.output) + output;
#pragma unroll 1
    for (std::int64_t first = column; first < end; first += step * kVector) {
      C x[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) x[e] = first + e < end ? ToCompute(row[(first + e) * segment.inner]) : C(0);
      normalize.template Apply<In, false>(x);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const C y = first + e < valid ? x[e] : normalize.masked;
        using Out = std::remove_pointer_t<decltype(type)>;
        if (first + e < end) to[(first + e) * segment.inner] = FromCompute<Out, C>(y);
      }
    }
  });
}

}  // namespace softmax::kernels::cuda
