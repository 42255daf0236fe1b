// The exponential of a vector, once per Highway target.
#if defined(SOFTMAX_KERNELS_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_EXP_INL_H_
#undef SOFTMAX_KERNELS_CPU_EXP_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_EXP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/cpu/factor.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using VecOf = hn::Vec<Tag<T>>;
template <typename T>
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<T>()));

// 2^f for f in [-0.5, 0.5] as 1 + f * (c1 + f * (c2 + ...)): minimax polynomials whose relative
// errors are 2.6e-9 (fp32) and 1.8e-17 (fp64).
template <typename T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  using Integer = std::int32_t;
  static constexpr int kFractionBits = 23;
  // Exponentials are carried times 2^kBias, so that even those whose share of the row is subnormal
  // are normal numbers until the one multiplication that makes the result.
  static constexpr int kBias = 64;
  static constexpr int kMaxExponent = 127;
  static constexpr float kSmallestExponent = -188.0f;  // below, the result rounds to zero
  static constexpr float kRounder = 0x1.8p23f;
  static constexpr std::uint32_t kHeadMask = 0xfffff000u;
  static constexpr int kTerms = 6;
  static constexpr float kCoefficients[kTerms] = {0x1.62e43117337b0p-1f,  0x1.ebfbe2c53fd3dp-3f,
                                                  0x1.c6ae72e0065ddp-5f,  0x1.3b270e65d3126p-7f,
                                                  0x1.5f7276bfe7010p-10f, 0x1.470b48e30bd6ep-13f};
};

template <>
struct ExpConstants<double> {
  using Integer = std::int64_t;
  static constexpr int kFractionBits = 52;
  static constexpr int kBias = 512;
  static constexpr int kMaxExponent = 1023;
  static constexpr double kSmallestExponent = -1500.0;
  static constexpr double kRounder = 0x1.8p52;
  static constexpr std::uint64_t kHeadMask = 0xfffffffff8000000u;
  static constexpr int kTerms = 11;
  static constexpr double kCoefficients[kTerms] = {0x1.62e42fefa39f3p-1,  0x1.ebfbdff82c598p-3,  0x1.c6b08d7048f31p-5,
                                                   0x1.3b2ab6fba1e1cp-7,  0x1.5d87fe7bbbe09p-10, 0x1.43091309610fcp-13,
                                                   0x1.ffcbee3b0a61cp-17, 0x1.62bfd49ededd3p-20, 0x1.b54167a1b0034p-24,
                                                   0x1.e605f964b639dp-28, 0x1.c063841f3a21dp-32};
};

// distance * factor - whole, with less error than one rounding of the product.
template <typename T>
HWY_INLINE VecOf<T> Remainder(VecOf<T> distance, VecOf<T> whole, const Factor<T>& factor) {
  const Tag<T> d;
#if HWY_NATIVE_FMA
  const auto high = hn::MulSub(distance, hn::Set(d, factor.high), whole);
  return hn::MulAdd(distance, hn::Set(d, factor.low), high);
#else
  using Bits = hn::RebindToUnsigned<Tag<T>>;
  const auto head = hn::And(distance, hn::BitCast(d, hn::Set(Bits(), ExpConstants<T>::kHeadMask)));
  const auto tail = hn::Sub(distance, head);
  const auto exact = hn::Sub(hn::Mul(head, hn::Set(d, factor.head)), whole);
  const auto small = hn::Add(hn::Mul(head, hn::Set(d, factor.tail)), hn::Mul(tail, hn::Set(d, factor.high)));
  return hn::Add(exact, small);
#endif
}

// 2^kBias * exp(distance * scale) for distances <= 0, -inf included; NaN for NaN. For the other
// distances, which only rows with a NaN have, it is some number.
template <typename T>
HWY_INLINE VecOf<T> BiasedExp(VecOf<T> distance, const Factor<T>& factor) {
  using C = ExpConstants<T>;
  const Tag<T> d;
  const hn::Rebind<typename C::Integer, Tag<T>> di;
  // The sum's low bits are the whole part of the exponent, already biased.
  const auto rounder = hn::Set(d, C::kRounder + C::kMaxExponent + C::kBias);
  const auto shifted = hn::MulAdd(distance, hn::Set(d, factor.high), rounder);
  const auto whole = hn::Sub(shifted, rounder);
  const auto f = Remainder(distance, whole, factor);
  auto p = hn::Set(d, C::kCoefficients[C::kTerms - 1]);
  for (int i = C::kTerms - 2; i >= 0; --i) {
    p = hn::MulAdd(p, f, hn::Set(d, C::kCoefficients[i]));
  }
  p = hn::MulAdd(p, f, hn::Set(d, T{1}));
  // A multiplication and not an addition to the exponent bits: NaN stays NaN.
  const auto power = hn::BitCast(d, hn::ShiftLeft<C::kFractionBits>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(whole, hn::Set(d, C::kSmallestExponent)), hn::Mul(p, power));
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
