#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/work.h"

// The arithmetic: scaled exponentials and logarithms within the bounds of kernels/reference.h, and the fixed tree in
// which chunk statistics are combined. See kernels/types.h for what infinities and NaN have to give.
namespace softmax::kernels::cuda {

template <typename C>
__device__ __forceinline__ C Infinity() {
  return static_cast<C>(INFINITY);
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

// The scale, split so that neither a difference of two inputs overflows nor the factor leaves the normal range: inputs
// are first multiplied by the power of two `pre` <= 1/2 (scale <= 1) or 1 inside the fused subtraction, which is exact.
template <typename C>
struct Scale;

__device__ __forceinline__ double PowerOfTwo(int exponent) {
  return __longlong_as_double(static_cast<long long>(exponent + 1023) << 52);
}

__device__ __forceinline__ double Prescale(double scale, int smallest) {
  if (scale > 1.0) return 1.0;
  int exponent = ilogb(scale);
  if (exponent < smallest) exponent = smallest;
  if (exponent > -1) exponent = -1;
  return PowerOfTwo(exponent);
}

template <>
struct Scale<float> {
  float pre;
  float scale_hi, scale_lo;  // scale / pre as two floats
  float log2_hi, log2_lo;    // the same times log2(e)
  float limit;               // prescaled differences below it count as `floor`,
  float floor;               // whose exponential is exactly 0
  float log_limit;           // and below this one as -inf

  // Scales below 2^-160 give no differences; from 2^126 on any difference is infinite.
  static __device__ Scale Of(double scale) {
    const bool infinite = scale > PowerOfTwo(126);
    scale = fmin(fmax(scale, PowerOfTwo(-160)), PowerOfTwo(126));
    Scale split;
    const double prescale = Prescale(scale, -126);
    const double rest = scale / prescale;
    const double log2_rest = rest * 1.4426950408889634;
    split.pre = static_cast<float>(prescale);
    split.scale_hi = static_cast<float>(rest);
    split.scale_lo = static_cast<float>(rest - split.scale_hi);
    split.log2_hi = static_cast<float>(log2_rest);
    split.log2_lo = static_cast<float>(log2_rest - split.log2_hi);
    split.floor = -160.0f / split.log2_hi;
    split.limit = infinite ? 0.0f : split.floor;
    split.log_limit = infinite ? 0.0f : -Infinity<float>();
    return split;
  }

  // exp(scale * (x - max)) for max_pre = max * pre. The product's rounding error is put back as a first-order term.
  __device__ __forceinline__ float Exp(float x, float max_pre) const {
    float error;
    const float a = Exponent(x, max_pre, &error);
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
    return fmaf(y, error * 0.69314718f, y);
  }
  // The same within 0.7 ulp, without the hardware's exponential (2 ulp).
  __device__ __forceinline__ float PreciseExp(float x, float max_pre) const {
    float error;
    const float a = Exponent(x, max_pre, &error);
    const float n = rintf(a);
    const float f = a - n;
    const float g = fmaf(f, 0.693147182f, fmaf(f, -1.90465421e-9f, error * 0.69314718f));
    float p = fmaf(g, 1.98412698e-4f, 1.38888889e-3f);
    p = fmaf(p, g, 8.33333333e-3f);
    p = fmaf(p, g, 4.16666667e-2f);
    p = fmaf(p, g, 1.66666667e-1f);
    p = fmaf(p, g, 0.5f);
    const float y = 1.0f + fmaf(p, g * g, g);
    return n < -126.0f ? 0.0f : y * __int_as_float((static_cast<int>(n) + 127) << 23);
  }

 private:
  // The difference as an exponent of 2, with its rounding error. Keeps NaN.
  __device__ __forceinline__ float Exponent(float x, float max_pre, float* error) const {
    float t = fmaf(x, pre, -max_pre);
    t = t < limit ? floor : t;
    const float a = t * log2_hi;
    *error = fmaf(t, log2_lo, fmaf(t, log2_hi, -a));
    return a;
  }
};

template <>
struct Scale<double> {
  double pre;
  double scale_hi;  // scale / pre
  double floor;

  static __device__ Scale Of(double value) {
    const double prescale = Prescale(value, -1022);
    return {prescale, value / prescale, -800.0 * prescale / value};
  }
  __device__ __forceinline__ double Exp(double x, double max_pre) const {
    double t = fma(x, pre, -max_pre);
    t = t < floor ? floor : t;
    const double a = t * scale_hi;
    const double error = fma(t, scale_hi, -a);
    const double y = exp(a);
    return fma(y, error, y);
  }
  __device__ __forceinline__ double PreciseExp(double x, double max_pre) const { return Exp(x, max_pre); }
};

// a + b as the rounded sum and its rounding error.
template <typename C>
__device__ __forceinline__ C TwoSum(C a, C b, C* error) {
  const C sum = a + b;
  const C b_part = sum - a;
  *error = (a - (sum - b_part)) + (b - b_part);
  return sum;
}

// log(x) for x >= 1 (or NaN, infinity) as two numbers, so that its error does not grow with its size.
__device__ __forceinline__ float LogTwo(float x, float* low) {
  int exponent = 0;
  const float part = logf(frexpf(x, &exponent));
  const float power = static_cast<float>(exponent) * 0.693145752f;  // exact: ln 2 to 15 bits
  return TwoSum(power, fmaf(static_cast<float>(exponent), 1.42860677e-6f, part), low);
}
__device__ __forceinline__ double LogTwo(double x, double* low) {
  int exponent = 0;
  const double part = log(frexp(x, &exponent));
  const double power = exponent * 6.93147180369123816490e-01;  // exact: ln 2 to 32 bits
  return TwoSum(power, fma(static_cast<double>(exponent), 1.90821492927058770002e-10, part), low);
}

__device__ __forceinline__ float TimesLow(const Scale<float>& scale, float t) { return t * scale.scale_lo; }
__device__ __forceinline__ double TimesLow(const Scale<double>&, double) { return 0; }

__device__ __forceinline__ bool IsInfinite(const Scale<float>& scale, float t) { return t < scale.log_limit; }
__device__ __forceinline__ bool IsInfinite(const Scale<double>&, double) { return false; }

// scale * (x - max) - log(sum), rounded about once: 2 ulp of the larger of the terms leave no room for more.
template <typename C>
__device__ __forceinline__ C LogResult(C x, const Scale<C>& scale, C max_pre, C log_hi, C log_lo) {
  C t_error, error;
  const C t = TwoSum(x * scale.pre, -max_pre, &t_error);
  const C product = t * scale.scale_hi;
  if (product == -Infinity<C>() || IsInfinite(scale, t)) return -Infinity<C>() - log_hi;
  const C rest = fma(t, scale.scale_hi, -product) + TimesLow(scale, t);
  const C high = TwoSum(product, -log_hi, &error);
  return high + (error + (fma(t_error, scale.scale_hi, rest) - log_lo));
}

// A maximum times pre; that of an all -inf part counts as 0, so that its terms become exp(-inf) = 0 and not NaN.
template <typename C>
__device__ __forceinline__ C MaxPre(C max, const Scale<C>& scale) {
  return max == -Infinity<C>() ? C(0) : max * scale.pre;
}

// Reductions over `lanes` neighbouring lanes (a power of two); every lane gets the same bits, since a + b = b + a.
template <typename C>
__device__ __forceinline__ C LaneMax(C value, int lanes) {
  for (int offset = lanes >> 1; offset > 0; offset >>= 1) {
    value = fmax(value, __shfl_xor_sync(0xffffffffu, value, offset));
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
  const C sum = LaneSum(mine.sum * scale.Exp(mine.max, MaxPre(max, scale)), lanes);
  return {max, sum};
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
template <typename C>
__device__ __forceinline__ C LaneSum(TwoPart<C> value, int lanes) {
  for (int offset = lanes >> 1; offset > 0; offset >>= 1) {
    value.Add(__shfl_xor_sync(0xffffffffu, value.high, offset), __shfl_xor_sync(0xffffffffu, value.low, offset));
  }
  return value.high + value.low;
}

template <typename C>
__device__ __forceinline__ Stats<C> CombineTwo(Stats<C> a, Stats<C> b, const Scale<C>& scale) {
  const C max = fmax(a.max, b.max);
  const C max_pre = MaxPre(max, scale);
  return {max, a.sum * scale.Exp(a.max, max_pre) + b.sum * scale.Exp(b.max, max_pre)};
}

// Folds chunk statistics, given by one warp in order, into 64 accumulators: lane l holds those of the groups that are
// l and l + 32 modulo 64. A warp may fold any subset of a row's groups; accumulators it never touched stay empty.
template <typename C>
struct RowFold {
  Stats<C> chunk = NoStats<C>();  // lane l: chunk l of the group being gathered
  Stats<C> low = NoStats<C>();
  Stats<C> high = NoStats<C>();

  __device__ __forceinline__ void Add(int index, Stats<C> stats, int lane, const Scale<C>& scale) {
    if (lane == index % kGroupChunks) chunk = stats;
    if (index % kGroupChunks == kGroupChunks - 1) EndGroup(index / kGroupChunks, lane, scale);
  }
  __device__ __forceinline__ void EndGroup(int group, int lane, const Scale<C>& scale) {
    const Stats<C> all = CombineLanes(chunk, scale);
    chunk = NoStats<C>();
    if (lane != group % 32) return;
    if (group % kAccumulators < 32) {
      low = CombineTwo(low, all, scale);
    } else {
      high = CombineTwo(high, all, scale);
    }
  }
  __device__ __forceinline__ Stats<C> Finish(const Scale<C>& scale) const {
    return CombineLanes(CombineTwo(low, high, scale), scale);
  }
};

// What turns an element into its result once the row's statistics are known.
template <typename C>
struct Normalizer {
  const Scale<C>& scale;
  C max_pre;
  C factor;  // 1 / sum, or log(sum) with log_lo
  C log_lo = 0;
  C masked;  // at or beyond the valid length
  bool log;

  __device__ Normalizer(const Scale<C>& s, Stats<C> row, bool is_log, bool empty)
      : scale(s), max_pre(MaxPre(row.max, s)), log(is_log) {
    const C sum = row.max == -Infinity<C>() ? C(NAN) : row.sum;
    factor = log ? LogTwo(sum, &log_lo) : C(1) / sum;
    masked = empty ? C(NAN) : log ? -Infinity<C>() : C(0);
  }
  __device__ __forceinline__ C Exp(C x) const { return scale.Exp(x, max_pre) * factor; }
  __device__ __forceinline__ C Log(C x) const { return LogResult(x, scale, max_pre, factor, log_lo); }
  __device__ __forceinline__ C operator()(C x) const { return log ? Log(x) : Exp(x); }
};

}  // namespace softmax::kernels::cuda
