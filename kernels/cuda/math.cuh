#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/scale.h"
#include "kernels/cuda/work.h"

// The arithmetic: scaled exponentials and logarithms within the bounds of kernels/reference.h, and the fixed tree in
// which chunk statistics are combined. See kernels/types.h for what infinities and NaN have to give.
namespace softmax::kernels::cuda {

template <typename C>
__device__ __forceinline__ C Infinity() {
  return static_cast<C>(INFINITY);
}

// Where arithmetic in double costs about twice that in float, and not 32 or 64 times.
#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
constexpr bool kHasFastDouble = true;
#else
constexpr bool kHasFastDouble = false;
#endif

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

// The scale's parts with the exponentials that use them.
template <typename C>
struct Scale;

template <>
struct Scale<float> : ScaleParts<float> {
  __device__ __forceinline__ explicit Scale(const ScaleParts<float>& parts) : ScaleParts<float>(parts) {}
  static __device__ Scale Of(double scale) { return Scale(ScaleParts<float>::Of(scale)); }

  // 2^((x - base) * fast - shift): see ExpBase.
  __device__ __forceinline__ float FastExp(float x, float base, float shift) const {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaf(x - base, fast, -shift)));
    return y;
  }
  // The same for a base of 0.
  __device__ __forceinline__ float PlainExp(float x, float shift) const {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaf(x, fast, -shift)));
    return y;
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

// The bits of 2^(i / 16), rounded, less i in units of 2^48: n more of these units, n mod 16 = i, make it 2^(n / 16).
// Read through the L1 cache, which holds it in one line.
__device__ const std::uint64_t kPowers[16] = {
    0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
    0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
    0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
    0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da};

// What the exponential needs that no instruction can hold.
__constant__ const double kExpTerms[4] = {3.809308599915536e-09, 0.16666666664319507, 0.041666666663345366,
                                          0.0013889074325561523};

template <>
struct Scale<double> : ScaleParts<double> {
  __device__ __forceinline__ explicit Scale(const ScaleParts<double>& parts) : ScaleParts<double>(parts) {}
  static __device__ Scale Of(double scale) { return Scale(ScaleParts<double>::Of(scale)); }

  // exp(scale * (x - max)) for max_pre = max * pre, within 1.2 ulp; what lies below the normal numbers comes out
  // between 0 and the smallest of them, from -1023 ln 2 on as 0. The exponent is n 16ths of ln 2, which the table has,
  // and a remainder of at most half of one, which leaves a short polynomial: our own fit of (exp(r) - 1) / r, 1.3e-17
  // of the exponential. No branches: the compiler would load the constants anew in each.
  __device__ __forceinline__ double Exp(double x, double max_pre) const {
    constexpr double kRound = 211106232532992.0;  // 1.5 * 2^47: its sum with n / 32 holds n in the low bits
    double t = fma(x, pre, -max_pre);
    t = t < floor ? floor : t;
    const double shifted = fma(t, half_log2, kRound);
    const double n = shifted - kRound;
    const int bits = __double2loint(shifted);
    // 2 ln 2 in two parts, the first so short that its product with n is exact: the fused subtraction then rounds the
    // small remainder alone.
    const double r = fma(n, kExpTerms[0], fma(t, scale_hi, n * -1.3862943649291992));
    double p = fma(r, kExpTerms[3], 0.008333474397659302);
    p = fma(p, r, kExpTerms[2]);
    p = fma(p, r, kExpTerms[1]);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    const std::uint64_t power = __ldg(kPowers + (bits & 15));
    const double y = __longlong_as_double(power + (static_cast<std::uint64_t>(bits) << 48));
    return fma(y, p * r, y);
  }
  __device__ __forceinline__ double PreciseExp(double x, double max_pre) const {
    const double t = fma(x, pre, -max_pre);
    const double a = t * scale_hi;
    const double error = fma(t, scale_hi, -a);
    const double y = exp(a);
    return t < floor ? 0.0 : fma(y, error, y);
  }
};

// a + b as the rounded sum and its rounding error.
template <typename C>
__device__ __forceinline__ C TwoSum(C a, C b, C* error) {
  const C sum = a + b;
  const C b_part = sum - a;
  *error = (a - (sum - b_part)) + (b - b_part);
  return sum;
}

// log(x + x_low) for x near 1 or larger (or NaN) as two numbers, so that its error does not grow with its size: 1.9e-8
// and what the second one's rounding adds. The polynomial is our own fit of log(1 + f) from sqrt(1/2) to sqrt(2).
__device__ __forceinline__ float LogTwo(float x, float x_low, float* low) {
  const int bits = __float_as_int(x);
  const int above = bits - 0x3f3504f3;  // the exponent's bits are those of the power of 2 that is taken out
  const int power_bits = above & static_cast<int>(0xff800000u);
  const float inverse = __int_as_float(0x3f800000 - power_bits);
  const float f = fmaf(x_low, inverse, __int_as_float(bits - power_bits) - 1.0f);
  const auto power = static_cast<float>(above >> 23);
  float p = fmaf(f, 0.08672556810f, -0.14378663135f);
  p = fmaf(p, f, 0.14977673248f);
  p = fmaf(p, f, -0.16564462101f);
  p = fmaf(p, f, 0.19954916829f);
  p = fmaf(p, f, -0.25001698011f);
  p = fmaf(p, f, 0.33334164510f);
  p = fmaf(p, f, -0.5f);
  const float part = f + fmaf(f * f, p, power * 1.42860677e-6f);
  const float high = power * 0.693145752f;  // exact: ln 2 to 15 bits; 0 or larger than the other part
  const float sum = high + part;
  *low = part - (sum - high);
  return x > 0 ? sum : NAN;
}
__device__ __forceinline__ double LogTwo(double x, double /*x_low*/, double* low) {
  int exponent = 0;
  const double part = log(frexp(x, &exponent));
  const double power = exponent * 6.93147180369123816490e-01;  // exact: ln 2 to 32 bits
  return TwoSum(power, fma(static_cast<double>(exponent), 1.90821492927058770002e-10, part), low);
}

__device__ __forceinline__ float LogRest(const Scale<float>& scale, float t, float product) {
  return fma(t, scale.scale_hi, -product) + t * scale.scale_lo;
}
__device__ __forceinline__ double LogRest(const Scale<double>& scale, double t, double product) {
  return fma(t, scale.scale_hi, -product);
}

__device__ __forceinline__ bool IsInfinite(const Scale<float>& scale, float t) { return t < scale.log_limit; }
__device__ __forceinline__ bool IsInfinite(const Scale<double>&, double) { return false; }

// Whether the logarithm of a row's sum is kept with scale * max added (LogShift), so that each element takes a product
// and a difference: where the maximum is not so large that two numbers could not hold both.
template <typename C>
__device__ __forceinline__ bool IsShifted(const Scale<C>& scale, C max_pre) {
  if constexpr (sizeof(C) == 4) return false;
  return fabs(max_pre * scale.scale_hi) <= 1099511627776.0;  // 2^40
}
__device__ __forceinline__ void LogShift(const Scale<double>& scale, double max_pre, double* log_hi, double* log_lo) {
  const double product = max_pre * scale.scale_hi;
  const double rest = fma(max_pre, scale.scale_hi, -product);
  double error;
  *log_hi = TwoSum(product, *log_hi, &error);
  *log_lo = (error + rest) + *log_lo;
}
// scale * x - shift.
__device__ __forceinline__ double ShiftedLog(double x, const Scale<double>& scale, double shift_hi, double shift_lo) {
  const double factor = scale.pre * scale.scale_hi;
  const double product = x * factor;
  const double rest = fma(x, factor, -product);
  double error;
  const double high = TwoSum(product, -shift_hi, &error);
  return high == -Infinity<double>() ? high : high + ((error + rest) - shift_lo);
}

// scale * (x - max) - log(sum), rounded about once: 2 ulp of the larger of the terms leave no room for more. The
// logarithm as Normalizer has it.
template <typename C>
__device__ __forceinline__ C LogResult(C x, const Scale<C>& scale, C max_pre, C log_hi, C log_lo) {
  if constexpr (sizeof(C) == 4 && kHasFastDouble) {
    // What belongs to the row alone is computed once for all its elements.
    const double factor = scale.log_limit == 0 ? 1e300 : static_cast<double>(scale.scale_hi) + scale.scale_lo;
    const double log = static_cast<double>(log_hi) + log_lo;
    const double t = fma(static_cast<double>(x), static_cast<double>(scale.pre), -static_cast<double>(max_pre));
    return static_cast<C>(fma(t, factor, -log));
  }
  if constexpr (sizeof(C) == 8) {
    if (IsShifted(scale, max_pre)) return ShiftedLog(x, scale, log_hi, log_lo);
  }
  C t_error, error;
  const C t = TwoSum(x * scale.pre, -max_pre, &t_error);
  const C product = t * scale.scale_hi;
  if (product == -Infinity<C>() || IsInfinite(scale, t)) return -Infinity<C>() - log_hi;
  const C rest = LogRest(scale, t, product);
  const C high = TwoSum(product, -log_hi, &error);
  return high + (error + (fma(t_error, scale.scale_hi, rest) - log_lo));
}

// The same for a row that may hold NaN, which it then has everywhere. Which of two NaN it would be is the compiler's
// choice, so there is one for all kernels: they agree in every bit.
template <typename C>
__device__ __forceinline__ C AnyLogResult(C x, const Scale<C>& scale, C max_pre, C log_hi, C log_lo) {
  return log_hi == log_hi ? LogResult(x, scale, max_pre, log_hi, log_lo) : C(NAN);
}

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
  __device__ __forceinline__ float PlainExp(float x, const Scale<float>& scale) const {
    return scale.PlainExp(x, shift);
  }
};
template <>
struct ExpBase<double> {
  double max_pre;
  static constexpr double correction = 1;

  __device__ __forceinline__ ExpBase(double max, const Scale<double>& scale) : max_pre(MaxPre(max, scale)) {}
  __device__ __forceinline__ double Exp(double x, const Scale<double>& scale) const { return scale.Exp(x, max_pre); }
  __device__ __forceinline__ static constexpr bool IsPlain() { return true; }
  __device__ __forceinline__ double PlainExp(double x, const Scale<double>& scale) const { return Exp(x, scale); }
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

// a / b for b >= 1 and a near 1, nearly always correctly rounded. The plain form wants numbers or NaN.
__device__ __forceinline__ float PlainQuotient(float a, float b) {
  const float inverse = Reciprocal(b);
  const float y = a * inverse;
  return fmaf(fmaf(-y, b, a), inverse, y);
}
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

// The larger of two, of which the first is not NaN; a NaN loses. That of doubles as a comparison and two selections,
// half of what fmax takes.
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

// Folds the statistics of a row of at most kFlatChunks chunks: lane l takes every 32nd from l on in order, then the
// lanes are combined. Called by whole warps; every lane gets the result.
template <typename C>
__device__ __forceinline__ Stats<C> FoldFlat(const Stats<C>* table, int chunks, int lane, const Scale<C>& scale) {
  Stats<C> mine = lane < chunks ? table[lane] : NoStats<C>();
  // Several at a time, so that only the sums wait for each other; what is not there changes no bit.
  constexpr int kAtOnce = sizeof(C) == 8 ? 1 : 4;
  for (int first = lane + 32; first < chunks; first += 32 * kAtOnce) {
    Stats<C> next[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) next[i] = first + 32 * i < chunks ? table[first + 32 * i] : NoStats<C>();
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) mine = CombineTwo(mine, next[i], scale);
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
// the groups that are l and l + 32 modulo 64. A warp may fold any subset of a row's groups; accumulators it never
// touched stay empty. With `flat` it gives what FoldFlat does.
template <typename C>
struct RowFold {
  bool flat = false;
  Stats<C> chunk = NoStats<C>();  // lane l: chunk l of the group being gathered
  Stats<C> low = NoStats<C>();
  Stats<C> high = NoStats<C>();

  __device__ __forceinline__ void Add(int index, Stats<C> stats, int lane, const Scale<C>& scale) {
    if (flat) {
      if (lane == index % 32) low = CombineTwo(low, stats, scale);
      return;
    }
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
    return CombineLanes(flat ? low : CombineTwo(low, high, scale), scale);
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

  // Whether log-softmax of 16-bit inputs has room for its plain form: their differences are nearly always exact, and
  // cannot overflow here.
  __device__ __forceinline__ bool IsPlain() const { return scale.plain != 0 && fabsf(max) <= kMostPlain; }

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
#pragma unroll
      for (int e = 0; e < kCount; ++e) x[e] = AnyLogResult(x[e], scale, base.max_pre, factor, log_lo);
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
