#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/core/exponential.cuh"
#include "kernels/cuda/core/logarithm.cuh"
#include "kernels/cuda/core/work.h"

// The arithmetic of rows within the bounds of kernels/reference.h, and the fixed tree in which chunk statistics are
// combined. See kernels/types.h for what infinities and NaN have to give.
namespace softmax::kernels::cuda {

// a / b of numbers from 0 to 2^20 and from 1 to 2^10, in a third of the instructions that any two integers take: the
// quotient of floats is off by less than the half that a has more.
__device__ __forceinline__ int SmallQuotient(int a, int b) {
  return static_cast<int>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b)));
}

// The maximum of a chunk and the sum of exp(scale * (x - max)) over it.
template <typename C>
struct Stats {
  C max;
  C sum;
};
template <typename C>
__device__ __forceinline__ Stats<C> NoStats() {
  return {-Infinity<C>(), C(0)};
}
// The same of a whole row, with what rounding has cut off its sum where that counts.
template <typename C>
struct RowStats {
  C max;
  C sum;
  C low = 0;

  __device__ __forceinline__ RowStats(const Stats<C>& stats) : max(stats.max), sum(stats.sum) {}
  __device__ __forceinline__ RowStats(C row_max, C row_sum, C sum_low) : max(row_max), sum(row_sum), low(sum_low) {}
  __device__ __forceinline__ operator Stats<C>() const { return {max, sum}; }
};

// A maximum times pre; that of an all -inf part counts as 0, so that its terms become exp(-inf) = 0 and not NaN.
template <typename C>
__device__ __forceinline__ C MaxPre(C max, const Scale<C>& scale) {
  return max == -Infinity<C>() ? C(0) : max * scale.pre;
}

// What the exponentials of a part are taken against, given its maximum. Where the scale allows the fast form, that is
// shift = fl(max * fast) instead of the maximum itself, which multiplies all of them by one number near 1; correction
// is its inverse. For maxima so large that the number would not be near 1 it is the maximum: inputs of that size whose
// exponentials are not 0 differ from it by an exact number.
template <typename C>
struct ExpBase;
constexpr float kMostShift = 8192;
__device__ __forceinline__ float ShiftCorrection(float max, float shift, const Scale<float>& scale) {
  const float t = fmaf(max, scale.fast, -shift) * -0.693147181f;  // |t| < 0.0004
  return 1.0f + fmaf(t * 0.5f, t, t);
}
template <>
struct ExpBase<float> {
  float max_pre;
  float base = 0;
  float shift;
  float correction = 1;

  __device__ __forceinline__ ExpBase(float max, const Scale<float>& scale)
      : max_pre(MaxPre(max, scale)), shift(max * scale.fast) {
    if (fabsf(shift) <= kMostShift) {
      correction = ShiftCorrection(max, shift, scale);
    } else {
      base = max == -Infinity<float>() ? 0.0f : max;
      shift = 0;
    }
  }
  __device__ __forceinline__ float Exp(float x, const Scale<float>& scale) const {
    return scale.FastExp(x, base, shift);
  }
  // Whether there is nothing to subtract before the product, so that PlainExp serves.
  __device__ __forceinline__ bool IsPlain() const { return base == 0; }
  // After that PlainExp serves for these elements.
  template <int kCount>
  __device__ __forceinline__ void SubtractFrom(float (&x)[kCount]) const {
    if (IsPlain()) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] -= base;
  }
  __device__ __forceinline__ float PlainExp(float x, const Scale<float>& scale) const {
    return scale.PlainExp(x, shift);
  }
};
template <>
struct ExpBase<double> {
  double max_pre;
  static constexpr double correction = 1;

  __device__ __forceinline__ ExpBase(double max, const Scale<double>& scale) : max_pre(MaxPre(max, scale)) {}
  // Templates, so that what Scale<double> keeps in memory stays out of other types' modules.
  template <typename S>
  __device__ __forceinline__ double Exp(double x, const S& scale) const {
    return scale.Exp(x, max_pre);
  }
  __device__ __forceinline__ static constexpr bool IsPlain() { return true; }
  template <int kCount>
  __device__ __forceinline__ static void SubtractFrom(double (&)[kCount]) {}
  template <typename S>
  __device__ __forceinline__ double PlainExp(double x, const S& scale) const {
    return Exp(x, scale);
  }
};
// Whether the fast form serves; one answer for a whole segment.
__device__ __forceinline__ bool IsFast(const Scale<float>& scale) { return scale.fast != 0.0f; }
__device__ __forceinline__ bool IsFast(const Scale<double>&) { return true; }

__device__ __forceinline__ float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fmaf(y, fmaf(-x, y, 1.0f), y);
}
__device__ __forceinline__ double Reciprocal(double x) { return 1.0 / x; }

// a / b for b >= 1 and a near 1, nearly always correctly rounded.
__device__ __forceinline__ float Quotient(float a, float b) {
  const float inverse = Reciprocal(b);
  const float y = a * inverse;
  const float rest = fmaf(-y, b, a);
  return rest == rest ? fmaf(rest, inverse, y) : y;
}
__device__ __forceinline__ double Quotient(double a, double b) { return Reciprocal(b) * a; }

// Integers in the order of the floats, which NaN is not among: of integers a warp finds the largest at once.
__device__ __forceinline__ int OrderedInt(float x) {
  const int bits = __float_as_int(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
__device__ __forceinline__ float OrderedFloat(int x) { return __int_as_float(x ^ ((x >> 31) & 0x7fffffff)); }

#if __CUDA_ARCH__ >= 800
template <typename C>
constexpr bool kHasWarpMax = sizeof(C) == 4;
__device__ __forceinline__ float WarpMax(float value) {
  return OrderedFloat(__reduce_max_sync(0xffffffffu, OrderedInt(value)));
}
#else
template <typename C>
constexpr bool kHasWarpMax = false;
#endif

// The larger of two, of which the first is not NaN; a NaN loses. For doubles half of what fmax takes.
__device__ __forceinline__ float Larger(float a, float b) { return fmax(a, b); }
__device__ __forceinline__ double Larger(double a, double b) { return b > a ? b : a; }

// Reductions over `lanes` neighbouring lanes (a power of two); every lane gets the same bits, since a + b = b + a.
template <typename C>
__device__ __forceinline__ C LaneMax(C value, int lanes) {
  if constexpr (kHasWarpMax<C>) {
    if (lanes == 32) return WarpMax(value);
  }
  for (int offset = lanes >> 1; offset > 0; offset >>= 1) {
    value = Larger(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}
template <typename C>
__device__ __forceinline__ C LaneSum(C value, int lanes) {
  for (int offset = lanes >> 1; offset > 0; offset >>= 1) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

// Empty lanes add exact zeros, so fewer lanes than 32 give the same bits where the others are empty.
template <typename C>
__device__ __forceinline__ Stats<C> CombineLanes(Stats<C> mine, const Scale<C>& scale, int lanes = 32) {
  const C max = LaneMax(mine.max, lanes);
  const double factor = scale.Exp(mine.max, MaxPre(max, scale));
  return {max, static_cast<C>(LaneSum(mine.sum * factor, lanes))};
}

// A sum with the part that its rounding lost.
template <typename C>
struct TwoPart {
  C high = 0;
  C low = 0;

  __device__ __forceinline__ void Add(C value_high, C value_low) {
    C error;
    high = TwoSum(high, value_high, &error);
    low = (low + value_low) + error;
  }
};
// Adds up what is kStep, 2 kStep, ... apart, the farthest first, into the first kStep.
template <int kCount, int kStep, typename C>
__device__ __forceinline__ void HalvingSum(TwoPart<C>* sums) {
  if constexpr (kCount > kStep) {
    constexpr int kHalf = kCount / 2;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) sums[i].Add(sums[i + kHalf].high, sums[i + kHalf].low);
    HalvingSum<kHalf, kStep>(sums);
  }
}

// The same of 2^kBits numbers that come one after the other in the order of their reversed bits, of which `sum` is
// number k: each finds the sum of those that it goes with waiting, and that of all is waiting[kBits] at the end. The
// places of `waiting` are constants, so that it lies in registers. add(x, y) adds y to x.
template <int kBits, typename T, typename F>
__device__ __forceinline__ void AddInTurn(int k, T sum, T (&waiting)[kBits + 1], F add) {
  bool goes_on = true;
#pragma unroll
  for (int bit = 0; bit < kBits; ++bit) {
    const bool finds = (k >> bit & 1) != 0;
    if (goes_on && finds) add(sum, waiting[bit]);
    if (goes_on && !finds) waiting[bit] = sum;
    goes_on = goes_on && finds;
  }
  if (goes_on) waiting[kBits] = sum;
}

// The terms of a narrow log-softmax row (kNarrowColumns): the hardware's exponential serves, as the sum is not rounded.
// The maximum's own term is exactly 1.
// kFast: the fast form is known to serve. kFinite: the maximum is a number.
template <typename In, bool kFast = false, bool kFinite = false>
__device__ __forceinline__ float NarrowExp(float x, float max, const Scale<float>& scale) {
  const float from = !kFinite && max == -Infinity<float>() ? 0.0f : max;
  // Differences of 16-bit elements are nearly always exact.
  return sizeof(In) == 2 && (kFast || IsFast(scale)) ? scale.FastExp(x, from, 0.0f) : scale.Exp(x, from * scale.pre);
}

template <typename C>
__device__ __forceinline__ Stats<C> CombineTwo(Stats<C> a, Stats<C> b, const Scale<C>& scale) {
  const C max = Larger(a.max, b.max);
  const C max_pre = MaxPre(max, scale);
  const double a_factor = scale.Exp(a.max, max_pre);
  const double b_factor = scale.Exp(b.max, max_pre);
  return {max, static_cast<C>(a.sum * a_factor + b.sum * b_factor)};
}

// What statistics are added to one after the other. Its sum is rounded to C at the end alone: beside one large element
// all others are added to about the same number, and each rounding on the way could take half an ulp of the result.
template <typename C>
struct Chain {
  C max;
  double sum;

  __device__ __forceinline__ static Chain From(const Stats<C>& first) { return {first.max, first.sum}; }
  __device__ __forceinline__ void Add(const Stats<C>& next, const Scale<C>& scale) {
    const C larger = Larger(max, next.max);
    const C max_pre = MaxPre(larger, scale);
    const double factor = scale.Exp(max, max_pre);
    const double next_factor = scale.Exp(next.max, max_pre);
    // A product of floats is exact.
    const double term = next.sum * next_factor;
    sum = sizeof(C) == 4 ? fma(sum, factor, term) : sum * factor + term;
    max = larger;
  }
  __device__ __forceinline__ Stats<C> End() const { return {max, static_cast<C>(sum)}; }
};

// Folds the statistics of a row of at most kFlatChunks chunks: lane l takes every 32nd from l on in order, then the
// lanes are combined. Called by whole warps; every lane gets the result.
template <typename C>
__device__ __forceinline__ Stats<C> FoldFlat(const Stats<C>* table, int chunks, int lane, const Scale<C>& scale) {
  Stats<C> mine = lane < chunks ? table[lane] : NoStats<C>();
  if (chunks > 32) {
    auto chain = Chain<C>::From(mine);
    // Several at a time, so that only the sums wait for each other; what is not there changes no bit.
    constexpr int kAtOnce = sizeof(C) == 8 ? 1 : 4;
    for (int first = lane + 32; first < chunks; first += 32 * kAtOnce) {
      Stats<C> next[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) next[i] = first + 32 * i < chunks ? table[first + 32 * i] : NoStats<C>();
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) chain.Add(next[i], scale);
    }
    __syncwarp();
    mine = chain.End();
  }
  int lanes = 2;
  while (lanes < chunks && lanes < 32) lanes *= 2;
  if (lanes == 32) return CombineLanes(mine, scale);
  // Every `lanes` lanes combine the same entries, for themselves.
  mine.max = __shfl_sync(0xffffffffu, mine.max, lane & (lanes - 1));
  mine.sum = __shfl_sync(0xffffffffu, mine.sum, lane & (lanes - 1));
  return CombineLanes(mine, scale, lanes);
}

// Folds the chunk statistics of a wider row, given by one warp in order, into 64 accumulators: lane l holds those of
// the groups that are l and l + 32 modulo 64. A warp may fold any of a row's groups; other accumulators stay empty.
template <typename C>
struct RowFold {
  Stats<C> chunk = NoStats<C>();  // lane l: chunk l of the group being gathered
  Chain<C> low = Chain<C>::From(NoStats<C>());
  Chain<C> high = low;

  __device__ __forceinline__ void Add(int index, Stats<C> stats, int lane, const Scale<C>& scale) {
    if (lane == index % kGroupChunks) chunk = stats;
    if (index % kGroupChunks == kGroupChunks - 1) EndGroup(index / kGroupChunks, lane, scale);
  }
  __device__ __forceinline__ void EndGroup(int group, int lane, const Scale<C>& scale) {
    const Stats<C> all = CombineLanes(chunk, scale);
    chunk = NoStats<C>();
    if (lane != group % 32) return;
    if (group % kAccumulators < 32) {
      low.Add(all, scale);
    } else {
      high.Add(all, scale);
    }
  }
  __device__ __forceinline__ Stats<C> Finish(const Scale<C>& scale) const {
    return CombineLanes(CombineTwo(low.End(), high.End(), scale), scale);
  }
};

constexpr float kMostPlain = 6e35f;

// What turns an element into its result once the row's statistics are known.
template <typename C>
struct Normalizer {
  const Scale<C>& scale;
  ExpBase<C> base;
  C max;
  C factor;  // 1 / sum, or log(sum) with log_lo (see IsShifted)
  C log_lo = 0;
  C masked;  // at or beyond the valid length
  bool log;

  __device__ __forceinline__ Normalizer(const Scale<C>& s, const RowStats<C>& row, bool is_log, bool empty)
      : scale(s), base(row.max, s), max(row.max), log(is_log) {
    if (log) {
      factor = LogOf(scale, row, &log_lo);
    } else {
      factor = Quotient(IsFast(scale) ? C(base.correction) : C(1), Sum(row));
    }
    masked = empty ? C(NAN) : log ? -Infinity<C>() : C(0);
  }
  // For log-softmax where what LogOf() gives is known.
  __device__ __forceinline__ Normalizer(const Scale<C>& s, C row_max, C log_hi, C low, bool empty)
      : scale(s), base(row_max, s), max(row_max), factor(log_hi), log_lo(low), log(true) {
    masked = empty ? C(NAN) : -Infinity<C>();
  }
  // The factor, and log_lo, of log-softmax.
  __device__ __forceinline__ static C LogOf(const Scale<C>& scale, const RowStats<C>& row, C* low) {
    C high = LogTwo(Sum(row), row.low, low);
    if constexpr (sizeof(C) == 8) {
      const C max_pre = MaxPre(row.max, scale);
      if (IsShifted(scale, max_pre)) LogShift(scale, max_pre, &high, low);
    }
    return high;
  }

  // Whether log-softmax of 16-bit inputs has room for its plain form: their differences are nearly always exact.
  __device__ __forceinline__ bool IsPlain() const { return scale.plain != 0 && fabsf(max) <= kMostPlain; }

  // Whether the results of `In` elements have their plain form (core/part.cuh).
  template <typename In>
  __device__ __forceinline__ bool HasPlainForm() const {
    if constexpr (sizeof(In) == 2) return log ? IsPlain() : base.IsPlain();
    return !log && base.IsPlain();
  }

  // The results of 16-bit elements x, in place, where log-softmax has its plain form.
  template <typename In, int kCount>
  __device__ __forceinline__ void ApplyPlain(C (&x)[kCount]) const {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      x[e] = log ? fma(x[e] - max, scale.plain, -factor) : base.Exp(x[e], scale) * factor;
    }
  }
  // The results of `In` elements x, in place. kFast: the fast form is known to serve.
  template <typename In, bool kFast, int kCount>
  __device__ __forceinline__ void Apply(C (&x)[kCount]) const {
    if (log) {
      ApplyLog<In>(x);
    } else if (kFast || IsFast(scale)) {
#pragma unroll
      for (int e = 0; e < kCount; ++e) x[e] = base.Exp(x[e], scale) * factor;
    } else {
#pragma unroll
      for (int e = 0; e < kCount; ++e) x[e] = scale.Exp(x[e], base.max_pre) * factor;
    }
  }

 private:
  __device__ __forceinline__ static C Sum(const RowStats<C>& row) {
    return row.max == -Infinity<C>() ? C(NAN) : row.sum;
  }

  template <typename In, int kCount>
  __device__ __forceinline__ void ApplyLog(C (&x)[kCount]) const {
    if constexpr (sizeof(In) == 2) {
      if (IsPlain()) {
#pragma unroll
        for (int e = 0; e < kCount; ++e) x[e] = fma(x[e] - max, scale.plain, -factor);
        return;
      }
    }
    if constexpr (kCount > VectorElements(sizeof(In))) {
      // 16-bit elements are rarely here: a few at a time, or they would take the plain form's registers. Those that are
      // done go to the end, as places of registers are constants.
      constexpr int kEach = sizeof(In) != 2 ? kCount : kCount % 8 == 0 ? 8 : kCount % 4 == 0 ? 4 : 1;
#pragma unroll 1
      for (int done = 0; done < kCount; done += kEach) {
        C y[kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) y[e] = AnyLogResult(x[e], scale, base.max_pre, factor, log_lo);
#pragma unroll
        for (int e = 0; e < kCount - kEach; ++e) x[e] = x[e + kEach];
#pragma unroll
        for (int e = 0; e < kEach; ++e) x[kCount - kEach + e] = y[e];
      }
      return;
    }
    // The same for few elements, for which a branch is cheaper.
    if (factor != factor) {
#pragma unroll
      for (int e = 0; e < kCount; ++e) x[e] = C(NAN);
      return;
    }
#pragma unroll
    for (int e = 0; e < kCount; ++e) x[e] = LogResult(x[e], scale, base.max_pre, factor, log_lo);
  }
};

}  // namespace softmax::kernels::cuda
