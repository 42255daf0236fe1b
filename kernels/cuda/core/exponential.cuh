#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/core/scale.h"

// Scaled exponentials within the bounds of kernels/reference.h.
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
// Read through the L1 cache, which holds it in one line. A template, as the terms below, so that only modules that use
// them have them: launches of kernels whose module has constants of its own were 0.3 us dearer.
template <typename C>
__device__ const std::uint64_t kPowers[16] = {
    0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
    0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
    0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
    0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da};

// What the exponential needs that no instruction can hold.
template <typename C>
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
  template <typename C = double>
  __device__ __forceinline__ C Exp(C x, C max_pre) const {
    constexpr double kRound = 211106232532992.0;  // 1.5 * 2^47: its sum with n / 32 holds n in the low bits
    double t = fma(x, pre, -max_pre);
    t = t < floor ? floor : t;
    const double shifted = fma(t, half_log2, kRound);
    const double n = shifted - kRound;
    const int bits = __double2loint(shifted);
    // 2 ln 2 in two parts, the first so short that its product with n is exact: only the small remainder is rounded.
    const double r = fma(n, kExpTerms<C>[0], fma(t, scale_hi, n * -1.3862943649291992));
    double p = fma(r, kExpTerms<C>[3], 0.008333474397659302);
    p = fma(p, r, kExpTerms<C>[2]);
    p = fma(p, r, kExpTerms<C>[1]);
    p = fma(p, r, 0.5);
    p = fma(p, r, 1.0);
    const std::uint64_t power = __ldg(kPowers<C> + (bits & 15));
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

// That of a launch, of whose parameters both forms are.
template <typename C, typename Params>
__device__ __forceinline__ Scale<C> ScaleOf(const Params& params) {
  if constexpr (sizeof(C) == 8) {
    return Scale<C>(params.scale_double);
  } else {
    return Scale<C>(params.scale_float);
  }
}

}  // namespace softmax::kernels::cuda
