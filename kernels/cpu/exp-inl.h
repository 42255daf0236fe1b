// The exponential of a vector, once per Highway target.
#if defined(SOFTMAX_KERNELS_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_EXP_INL_H_
#undef SOFTMAX_KERNELS_CPU_EXP_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_EXP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/factor.h"

// An instruction that multiplies by powers of two and takes them as floating-point numbers.
#undef SOFTMAX_HAS_SCALEF
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define SOFTMAX_HAS_SCALEF 1
#else
#define SOFTMAX_HAS_SCALEF 0
#endif

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
// Vectors whose exponentials are computed side by side: what latency asks for and registers hold.
constexpr int kSideBySide = SOFTMAX_HAS_SCALEF ? 8 : 4;

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
};

// 2^f for f in [-0.5, 0.5] as 1 + f * (c1 + f * (c2 + ...)): minimax polynomials whose relative errors are 2.6e-9
// (fp32) and 1.8e-17 (fp64). The shorter one's is 7.8e-8 around a constant, which is as good as 1: a share of a sum has
// it above and below.
template <typename T, Grade kGrade>
struct Polynomial;

template <>
struct Polynomial<float, Grade::kFull> {
  static constexpr int kTerms = 6;
  static constexpr float kCoefficients[kTerms] = {0x1.62e43117337b0p-1f,  0x1.ebfbe2c53fd3dp-3f,
                                                  0x1.c6ae72e0065ddp-5f,  0x1.3b270e65d3126p-7f,
                                                  0x1.5f7276bfe7010p-10f, 0x1.470b48e30bd6ep-13f};
};

template <>
struct Polynomial<float, Grade::kSixteen> {
  static constexpr int kTerms = 5;
  static constexpr float kCoefficients[kTerms] = {0x1.62e428p-1f, 0x1.ebf8fap-3f, 0x1.c6b552p-5f, 0x1.3d1542p-7f,
                                                  0x1.5ce2e0p-10f};
};

template <>
struct Polynomial<double, Grade::kFull> {
  static constexpr int kTerms = 11;
  static constexpr double kCoefficients[kTerms] = {0x1.62e42fefa39f3p-1,  0x1.ebfbdff82c598p-3,  0x1.c6b08d7048f31p-5,
                                                   0x1.3b2ab6fba1e1cp-7,  0x1.5d87fe7bbbe09p-10, 0x1.43091309610fcp-13,
                                                   0x1.ffcbee3b0a61cp-17, 0x1.62bfd49ededd3p-20, 0x1.b54167a1b0034p-24,
                                                   0x1.e605f964b639dp-28, 0x1.c063841f3a21dp-32};
};

// distance * factor - whole, with less error than one rounding of the product has. For 16-bit answers, fused
// multiply-add leaves out the low part of the factor, an instruction less; the factor's rounding error then remains.
template <typename T, Grade kGrade>
HWY_INLINE VecOf<T> Remainder(VecOf<T> distance, VecOf<T> whole, const Factor<T, kGrade>& factor) {
  const Tag<T> d;
#if HWY_NATIVE_FMA
  const auto high = hn::MulSub(distance, hn::Set(d, factor.high), whole);
  return kGrade == Grade::kSixteen ? high : hn::MulAdd(distance, hn::Set(d, factor.low), high);
#else
  using Bits = hn::RebindToUnsigned<Tag<T>>;
  const auto head = hn::And(distance, hn::BitCast(d, hn::Set(Bits(), ExpConstants<T>::kHeadMask)));
  const auto tail = hn::Sub(distance, head);
  const auto exact = hn::Sub(hn::Mul(head, hn::Set(d, factor.head)), whole);
  const auto small = hn::Add(hn::Mul(head, hn::Set(d, factor.tail)), hn::Mul(tail, hn::Set(d, factor.high)));
  return hn::Add(exact, small);
#endif
}

// The whole part of an exponent of two.
template <typename T>
struct WholePart {
  VecOf<T> shifted;  // its low bits are the whole part, biased as in a floating-point number
  VecOf<T> value;
};

// The whole number nearest to distance * factor.
template <typename T, Grade kGrade>
HWY_INLINE WholePart<T> NearestWhole(VecOf<T> distance, const Factor<T, kGrade>& factor) {
  using C = ExpConstants<T>;
  const Tag<T> d;
  const auto rounder = hn::Set(d, C::kRounder + C::kMaxExponent + C::kBias);
  const auto shifted = hn::MulAdd(distance, hn::Set(d, factor.high), rounder);
  return {shifted, hn::Sub(shifted, rounder)};
}

#if SOFTMAX_HAS_SCALEF
// What the polynomial is multiplied by beforehand, as Raised() leaves the bias out.
template <typename T>
constexpr T kHeadStart = sizeof(T) == 4 ? T(0x1p64) : T(0x1p512);

// Zero where `whole` is less than `smallest`, p times that power of two elsewhere, with NaN.
HWY_INLINE VecOf<float> Scalef(VecOf<float> p, VecOf<float> whole, VecOf<float> smallest) {
  return VecOf<float>{
      _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(whole.raw, smallest.raw, _CMP_NLT_UQ), p.raw, whole.raw)};
}
HWY_INLINE VecOf<double> Scalef(VecOf<double> p, VecOf<double> whole, VecOf<double> smallest) {
  return VecOf<double>{
      _mm512_maskz_scalef_pd(_mm512_cmp_pd_mask(whole.raw, smallest.raw, _CMP_NLT_UQ), p.raw, whole.raw)};
}
#else
template <typename T>
constexpr T kHeadStart = 1;
#endif

// p * 2^(whole + kBias), where p has had its head start; zero where that rounds to zero.
template <typename T>
HWY_INLINE VecOf<T> Raised(VecOf<T> p, const WholePart<T>& whole) {
  using C = ExpConstants<T>;
  const Tag<T> d;
  const auto smallest = hn::Set(d, C::kSmallestExponent);
#if SOFTMAX_HAS_SCALEF
  return Scalef(p, whole.value, smallest);
#else
  const auto is_zero = hn::Lt(whole.value, smallest);
  const hn::Rebind<typename C::Integer, Tag<T>> di;
  // A multiplication and not an addition to the exponent bits: NaN stays NaN.
  const auto power = hn::BitCast(d, hn::ShiftLeft<C::kFractionBits>(hn::BitCast(di, whole.shifted)));
  return hn::IfThenZeroElse(is_zero, hn::Mul(p, power));
#endif
}

template <typename T, Grade kGrade, std::size_t... i>
HWY_INLINE void BiasedExpsOf(VecOf<T>* HWY_RESTRICT x, const Factor<T, kGrade>& factor, std::index_sequence<i...>) {
  using P = Polynomial<T, kGrade>;
  const Tag<T> d;
  const WholePart<T> wholes[] = {NearestWhole<T>(x[i], factor)...};
  ((x[i] = Remainder<T>(x[i], wholes[i].value, factor)), ...);
  VecOf<T> p[] = {((void)i, hn::Set(d, P::kCoefficients[P::kTerms - 1] * kHeadStart<T>))...};
  HWY_UNROLL(12)
  for (int term = P::kTerms - 2; term >= 0; --term) {
    const auto coefficient = hn::Set(d, P::kCoefficients[term] * kHeadStart<T>);
    ((p[i] = hn::MulAdd(p[i], x[i], coefficient)), ...);
  }
  ((p[i] = hn::MulAdd(p[i], x[i], hn::Set(d, kHeadStart<T>))), ...);
  ((x[i] = Raised<T>(p[i], wholes[i])), ...);
}

// 2^kBias * exp(distance * scale) for distances <= 0, -inf included; NaN for NaN. For the other
// distances, which only rows with a NaN have, it is some number. The vectors go through every step
// side by side, so that each step of one hides the latency of the others.
template <typename T, int kCount, Grade kGrade>
HWY_INLINE void BiasedExps(VecOf<T> (&distances)[kCount], const Factor<T, kGrade>& factor) {
  BiasedExpsOf<T>(distances, factor, std::make_index_sequence<kCount>());
}

// Calls run(factor) with the factor of its grade.
template <typename T, class F>
HWY_INLINE auto WithGrade(const AnyFactor<T>& factor, F run) {
  if constexpr (sizeof(T) == 4) {
    if (factor.is_for_sixteen) return run(ForSixteen(factor.full));
  }
  return run(factor.full);
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
