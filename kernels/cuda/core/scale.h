#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// The scale of a softmax, prepared on the host or on the device (the same bits on both) for the kernels' arithmetic.
#ifdef __CUDACC__
#define SOFTMAX_HOST_DEVICE __host__ __device__
#else
#define SOFTMAX_HOST_DEVICE
#endif

namespace softmax::kernels::cuda {

SOFTMAX_HOST_DEVICE inline double PowerOfTwo(int exponent) {
  const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
  double value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// Inputs are first multiplied by this power of two, at most 1/2 (scale <= 1) or 1, inside the fused subtraction, which
// is exact: so neither a difference of two inputs overflows nor the remaining factor leaves the normal range.
SOFTMAX_HOST_DEVICE inline double Prescale(double scale, int smallest) {
  if (scale > 1.0) return 1.0;
  int exponent = ilogb(scale);
  if (exponent < smallest) exponent = smallest;
  if (exponent > -1) exponent = -1;
  return PowerOfTwo(exponent);
}

template <typename C>
struct ScaleParts;

template <>
struct ScaleParts<float> {
  float pre;
  float scale_hi, scale_lo;  // scale / pre as two floats
  float log2_hi, log2_lo;    // the same times log2(e)
  float fast;                // scale * log2(e) where one float is close enough for FastExp; otherwise 0
  float plain;               // the scale where a float holds it; otherwise 0
  float limit;               // prescaled differences below it count as `floor`,
  float floor;               // whose exponential is exactly 0
  float log_limit;           // and below this one as -inf

  // Scales below 2^-160 give no differences; from 2^126 on any difference is infinite.
  static SOFTMAX_HOST_DEVICE ScaleParts Of(double value) {
    const bool infinite = value > PowerOfTwo(126);
    const double scale = value < PowerOfTwo(-160) ? PowerOfTwo(-160) : infinite ? PowerOfTwo(126) : value;
    const double prescale = Prescale(scale, -126);
    const double rest = scale / prescale;
    const double log2_rest = rest * 1.4426950408889634;
    const double log2 = scale * 1.4426950408889634;
    const bool usual = scale >= PowerOfTwo(-60) && scale <= PowerOfTwo(60);
    ScaleParts parts;
    parts.pre = static_cast<float>(prescale);
    parts.scale_hi = static_cast<float>(rest);
    parts.scale_lo = static_cast<float>(rest - parts.scale_hi);
    parts.log2_hi = static_cast<float>(log2_rest);
    parts.log2_lo = static_cast<float>(log2_rest - parts.log2_hi);
    parts.fast = static_cast<float>(log2);
    if (!usual || fabs(parts.fast - log2) > log2 * PowerOfTwo(-24) * 0.4) parts.fast = 0.0f;
    parts.plain = usual && static_cast<float>(scale) == scale ? static_cast<float>(scale) : 0.0f;
    parts.floor = -160.0f / parts.log2_hi;
    parts.limit = infinite ? 0.0f : parts.floor;
    parts.log_limit = infinite ? 0.0f : -static_cast<float>(INFINITY);
    return parts;
  }
};

// What prescaled differences multiply by in log-softmax in double: where they are infinite, what makes them so.
SOFTMAX_HOST_DEVICE inline double LogFactor(const ScaleParts<float>& parts) {
  return parts.log_limit == 0 ? 1e300 : static_cast<double>(parts.scale_hi) + parts.scale_lo;
}

template <>
struct ScaleParts<double> {
  double pre;
  double scale_hi;   // scale / pre
  double half_log2;  // the same times log2(e) / 2: the half keeps it from overflowing
  double floor;      // prescaled differences below it count as it, -1023 ln 2, whose exponential is exactly 0

  static SOFTMAX_HOST_DEVICE ScaleParts Of(double value) {
    const double prescale = Prescale(value, -1022);
    const double rest = value / prescale;
    return {prescale, rest, rest * 0.7213475204444817, -709.0895657128241 * prescale / value};
  }
};

}  // namespace softmax::kernels::cuda
