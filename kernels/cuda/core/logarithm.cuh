#pragma once

#include "kernels/cuda/core/exponential.cuh"

// Logarithms of sums, and the results of log-softmax, within the bounds of kernels/reference.h.
namespace softmax::kernels::cuda {

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
    const double factor = LogFactor(scale);
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

// `y` for a row that may hold NaN, which it then has everywhere. Which of two NaN it would be is the compiler's choice,
// so there is one for all kernels: they agree in every bit.
template <typename C>
__device__ __forceinline__ C WithNan(C y, C log_hi) {
  if constexpr (sizeof(C) == 4) {
    // As bits: given the choice, compilers compute each element in a branch of its own.
    const unsigned keep = log_hi == log_hi ? 0xffffffffu : 0u;
    return __uint_as_float((__float_as_uint(y) & keep) | (__float_as_uint(C(NAN)) & ~keep));
  }
  return log_hi == log_hi ? y : C(NAN);
}
// LogResult() for such a row.
template <typename C>
__device__ __forceinline__ C AnyLogResult(C x, const Scale<C>& scale, C max_pre, C log_hi, C log_lo) {
  return WithNan(LogResult(x, scale, max_pre, log_hi, log_lo), log_hi);
}

// AnyLogResult() for many elements: what it converts to double, of the scale and of a row, is converted once. Hidden
// from the compiler, which would rather convert it again for each element.
template <typename C>
struct LogScale {
  static constexpr bool kInDouble = sizeof(C) == 4 && kHasFastDouble;

  __device__ __forceinline__ explicit LogScale(const Scale<C>& s) : scale(s) {
    if constexpr (kInDouble) {
      pre = Hidden(scale.pre);
      factor = Hidden(LogFactor(scale));
    }
  }
  __device__ __forceinline__ static double Hidden(double value) {
    asm("" : "+d"(value));
    return value;
  }

  const Scale<C> scale;
  double pre = 0;
  double factor = 0;
};
template <typename C>
class LogTerms {
 public:
  LogTerms() = default;
  // `zero`: a 0 that the assembler does not know either, where it would convert again.
  __device__ __forceinline__ LogTerms(C max_pre, C log_hi, C log_lo, std::uint32_t zero = 0)
      : max_pre_(max_pre), log_hi_(log_hi), log_lo_(log_lo) {
    if constexpr (LogScale<C>::kInDouble) {
      from_ = Hidden(max_pre, zero);
      log_ = Hidden(static_cast<double>(log_hi) + log_lo, zero);
    }
  }
  // Of a row without NaN.
  __device__ __forceinline__ C NumberResult(C x, const LogScale<C>& s) const {
    if constexpr (LogScale<C>::kInDouble) {
      return static_cast<C>(fma(fma(static_cast<double>(x), s.pre, -from_), s.factor, -log_));
    }
    return LogResult(x, s.scale, max_pre_, log_hi_, log_lo_);
  }
  __device__ __forceinline__ C Result(C x, const LogScale<C>& s) const { return WithNan(NumberResult(x, s), log_hi_); }

 private:
  __device__ __forceinline__ static double Hidden(double value, std::uint32_t zero) {
    const double hidden = __hiloint2double(__double2hiint(value), __double2loint(value) ^ static_cast<int>(zero));
    return LogScale<C>::Hidden(hidden);
  }

  C max_pre_;
  C log_hi_;
  C log_lo_;
  double from_;
  double log_;
};

}  // namespace softmax::kernels::cuda
