// Vectors of float or double from and to elements of any type, once per Highway target.
#if defined(SOFTMAX_KERNELS_CPU_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_ELEMENTS_INL_H_
#undef SOFTMAX_KERNELS_CPU_ELEMENTS_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_ELEMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/element.h"
#include "kernels/cpu/exp-inl.h"
#include "kernels/types.h"

// Hardware conversion between fp16 and fp32, and masked loads and stores that do not touch what the
// mask leaves out (of 32- and 64-bit elements; of 16-bit ones).
#undef SOFTMAX_HAS_F16C
#undef SOFTMAX_HAS_MASKED_MEMORY
#undef SOFTMAX_HAS_MASKED_SIXTEEN
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define SOFTMAX_HAS_F16C 1
#define SOFTMAX_HAS_MASKED_MEMORY 1
#else
#define SOFTMAX_HAS_F16C 0
#define SOFTMAX_HAS_MASKED_MEMORY 0
#endif
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define SOFTMAX_HAS_MASKED_SIXTEEN 1
#else
#define SOFTMAX_HAS_MASKED_SIXTEEN 0
#endif

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

template <class DF>
using BitsFor = hn::Vec<hn::Rebind<std::uint16_t, DF>>;

// The floats that 16-bit elements stand for; the last argument only names their type.
template <class DF>
HWY_INLINE hn::Vec<DF> Widen(DF d, BitsFor<DF> bits, BFloat) {
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (hn::MaxLanes(d) == 16) {
    // Lane i takes 16 bits number i for its upper half and zero for its lower one: a permutation instead of a widening,
    // which takes more than twice as long, and a shift.
    HWY_ALIGN static constexpr std::uint32_t kFrom[] = {
        0x00000, 0x10000, 0x20000, 0x30000, 0x40000, 0x50000, 0x60000, 0x70000,
        0x80000, 0x90000, 0xa0000, 0xb0000, 0xc0000, 0xd0000, 0xe0000, 0xf0000,
    };
    const __m512i from = hn::Load(hn::Rebind<std::uint32_t, DF>(), kFrom).raw;
    return hn::Vec<DF>{
        _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, from, _mm512_castsi256_si512(bits.raw)))};
  }
#endif
  const hn::Rebind<std::uint32_t, DF> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class DF>
HWY_INLINE hn::Vec<DF> Widen(DF d, BitsFor<DF> bits, Half) {
#if SOFTMAX_HAS_F16C
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), bits));
#else
  const hn::Rebind<std::uint32_t, DF> d32;
  const auto wide = hn::PromoteTo(d32, bits);
  const auto magnitude = hn::And(wide, hn::Set(d32, 0x7fffu));
  const auto sign = hn::ShiftLeft<16>(hn::Xor(wide, magnitude));
  // The exponent's bias is corrected by an exact multiplication, which is right for subnormals too.
  const auto finite = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
  const auto is_special = hn::Ge(finite, hn::Set(d, 65536.0f));
  const auto special = hn::Or(hn::BitCast(d32, finite), hn::Set(d32, 0x7f800000u));
  const auto value = hn::IfThenElse(is_special, hn::BitCast(d, special), finite);
  return hn::Or(value, hn::BitCast(d, sign));
#endif
}

template <class DF, typename Element>
HWY_INLINE hn::Vec<DF> LoadFloats(DF d, const Element* from) {
  if constexpr (std::is_same_v<Element, float>) {
    return hn::LoadU(d, from);
  } else {
    return Widen(d, hn::LoadU(hn::Rebind<std::uint16_t, DF>(), &from->bits), Element());
  }
}

// Loads kLanes<T> elements.
template <typename T, typename Element>
HWY_INLINE VecOf<T> LoadVec(const Element* from) {
  const Tag<T> d;
  if constexpr (std::is_same_v<T, Element>) {
    return hn::LoadU(d, from);
  } else if constexpr (std::is_same_v<T, float>) {
    return LoadFloats(d, from);
  } else {
    return hn::PromoteTo(d, LoadFloats(hn::Rebind<float, Tag<T>>(), from));
  }
}

// Loads `count` elements, 0 < count <= kLanes<T>, and minus infinity for the rest.
template <typename T, typename Element>
HWY_INLINE VecOf<T> LoadPartialVec(const Element* from, std::int64_t count) {
  if (count == kLanes<T>) {
    return LoadVec<T>(from);
  }
#if SOFTMAX_HAS_MASKED_MEMORY
  if constexpr (std::is_same_v<T, Element>) {
    const Tag<T> d;
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(count));
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), hn::Set(d, Constants<T>::kNegativeInfinity));
  }
#endif
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (sizeof(Element) == 2 && std::is_same_v<T, float>) {
    const hn::Rebind<std::uint16_t, Tag<T>> d;
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(count));
    const auto bits = hn::IfThenElse(mask, hn::MaskedLoad(mask, d, &from->bits),
                                     hn::Set(d, std::uint16_t{Constants<Element>::kNegativeInfinity.bits}));
    return Widen(Tag<T>(), bits, Element());
  }
#endif
  Element padded[kLanes<T>];
  for (Element& element : padded) {
    element = Constants<Element>::kNegativeInfinity;
  }
  std::memcpy(padded, from, static_cast<std::size_t>(count) * sizeof(Element));
  return LoadVec<T>(padded);
}

// The same for a `count` of any size: none at all, or more than a vector holds.
template <typename T, typename Element>
HWY_INLINE VecOf<T> LoadSomeVec(const Element* from, std::int64_t count) {
  return HWY_UNLIKELY(count <= 0) ? hn::Set(Tag<T>(), Constants<T>::kNegativeInfinity)
                                  : LoadPartialVec<T>(from, std::min<std::int64_t>(count, kLanes<T>));
}

// Floats rounded to 16-bit elements, to nearest even.
template <class DF>
HWY_INLINE BitsFor<DF> LowBits(DF, hn::Vec<hn::Rebind<std::uint32_t, DF>> bits) {
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (hn::MaxLanes(DF()) == 16) {
    return BitsFor<DF>{_mm512_cvtepi32_epi16(bits.raw)};  // one instruction instead of DemoteTo's three
  }
#endif
  const hn::Rebind<std::int32_t, DF> signed32;
  return hn::DemoteTo(hn::Rebind<std::uint16_t, DF>(), hn::BitCast(signed32, bits));
}

// The bits of a float that is no NaN, rounded to a bf16 in their upper half.
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<std::uint32_t, DF>> RoundedBits(DF d, hn::Vec<DF> value) {
  const hn::Rebind<std::uint32_t, DF> d32;
  const auto bits = hn::BitCast(d32, value);
  // The integers 1, 0x7fff and 0x7fc00000, written as floats: those come from memory for free, where
  // integers would pass through a general register for every vector.
  const auto one = hn::BitCast(d32, hn::Set(d, 0x1p-149f));
  const auto almost_half = hn::BitCast(d32, hn::Set(d, 0x7fffp-149f));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), one);
  return hn::Add(bits, hn::Add(odd, almost_half));
}

template <class DF>
HWY_INLINE BitsFor<DF> RoundFloats(DF d, hn::Vec<DF> value, BFloat) {
  const hn::Rebind<std::uint32_t, DF> d32;
  const auto rounded = RoundedBits(d, value);
  const auto nan = hn::BitCast(d32, hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
  const auto result = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(value)), nan, rounded);
  return LowBits(d, hn::ShiftRight<16>(result));
}

template <class DF>
HWY_INLINE BitsFor<DF> RoundFloats(DF d, hn::Vec<DF> value, Half) {
#if SOFTMAX_HAS_F16C
  (void)d;
  const hn::Rebind<std::uint16_t, DF> d16;
  return hn::BitCast(d16, hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), value));
#else
  const hn::Rebind<std::uint32_t, DF> d32;
  const hn::Rebind<std::int32_t, DF> di;
  const auto bits = hn::BitCast(d32, value);
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fffffffu));
  const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 1u));
  const auto carried = hn::Add(magnitude, hn::Add(odd, hn::Set(d32, 0xfffu)));
  const auto normal = hn::BitCast(di, hn::ShiftRight<13>(hn::Sub(carried, hn::Set(d32, 112u << 23))));
  // Adding 0.5 makes the float's last bit worth what a subnormal's last bit is worth.
  const auto half = hn::Set(d, 0.5f);
  const auto shifted = hn::BitCast(d32, hn::Add(hn::BitCast(d, magnitude), half));
  const auto subnormal = hn::BitCast(di, hn::Sub(shifted, hn::BitCast(d32, half)));
  const auto compared = hn::BitCast(di, magnitude);
  auto result = hn::IfThenElse(hn::Lt(compared, hn::Set(di, 0x38800000)), subnormal, normal);
  result = hn::IfThenElse(hn::Gt(compared, hn::Set(di, 0x477fefff)), hn::Set(di, 0x7c00), result);
  result = hn::IfThenElse(hn::Gt(compared, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7e00), result);
  return LowBits(d, hn::Or(hn::BitCast(d32, result), sign));
#endif
}

template <class DF, typename Element>
HWY_INLINE void StoreFloats(DF d, hn::Vec<DF> value, Element* to) {
  if constexpr (std::is_same_v<Element, float>) {
    hn::StoreU(value, d, to);
  } else {
    hn::StoreU(RoundFloats(d, value, Element()), hn::Rebind<std::uint16_t, DF>(), &to->bits);
  }
}

// Rounds doubles to numbers of a 16-bit type that has these parameters, so that the conversions
// through float that follow are exact and the value is rounded only once.
template <int kFractionBits, int kMinExponent>
HWY_INLINE VecOf<double> RoundToFormat(VecOf<double> value) {
  const Tag<double> d;
  const hn::Rebind<std::int64_t, Tag<double>> di;
  constexpr std::int64_t kMinField = std::int64_t{1023 + kMinExponent} << 52;
  constexpr std::int64_t kUp = std::int64_t{52 - kFractionBits} << 52;
  const auto bits = hn::BitCast(di, value);
  const auto field = hn::And(bits, hn::Set(di, std::int64_t{0x7ff} << 52));
  const auto floor = hn::Set(di, kMinField);
  const auto exponent = hn::IfThenElse(hn::Gt(floor, field), floor, field);
  // A power of two whose last bit is worth what the last bit of the result is worth.
  const auto power = hn::BitCast(d, hn::Add(exponent, hn::Set(di, kUp)));
  const auto magnitude = hn::Abs(value);
  const auto rounded = hn::CopySign(hn::Sub(hn::Add(magnitude, power), power), value);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x1p200)), rounded, value);
}

// The largest lane, in every lane; where one is NaN, any of them. Highway's emulated target begins
// with the lowest finite number, which is too large where every lane is -inf.
template <typename T>
HWY_INLINE VecOf<T> LargestLane(VecOf<T> value) {
  const Tag<T> d;
#if HWY_TARGET == HWY_EMU128
  HWY_ALIGN T lanes[kLanes<T>];
  hn::Store(value, d, lanes);
  return hn::Set(d, *std::max_element(lanes, lanes + kLanes<T>));
#else
  return hn::MaxOfLanes(d, value);
#endif
}

// Rounds doubles to floats; what is too large becomes infinite, which Highway's own scalar code
// does not do.
HWY_INLINE hn::Vec<hn::Rebind<float, Tag<double>>> Narrow(VecOf<double> value) {
  const hn::Rebind<float, Tag<double>> narrow;
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  HWY_ALIGN double doubles[kLanes<double>];
  HWY_ALIGN float floats[kLanes<double>];
  hn::Store(value, Tag<double>(), doubles);
  for (int i = 0; i < kLanes<double>; ++i) {
    floats[i] = static_cast<float>(doubles[i]);
  }
  return hn::LoadU(narrow, floats);
#else
  return hn::DemoteTo(narrow, value);
#endif
}

// Stores kLanes<T> elements, each rounded once, to nearest even.
template <typename T, typename Element>
HWY_INLINE void StoreVec(VecOf<T> value, Element* to) {
  const Tag<T> d;
  if constexpr (std::is_same_v<T, Element>) {
    hn::StoreU(value, d, to);
  } else if constexpr (std::is_same_v<T, float> && std::is_same_v<Element, double>) {
    const Tag<double> wide;
    HWY_ALIGN float floats[kLanes<float>];
    hn::Store(value, d, floats);
    for (int i = 0; i < kLanes<float>; i += kLanes<double>) {
      const auto part = hn::LoadU(hn::Rebind<float, Tag<double>>(), floats + i);
      hn::StoreU(hn::PromoteTo(wide, part), wide, to + i);
    }
  } else if constexpr (std::is_same_v<T, float>) {
    StoreFloats(d, value, to);
  } else {
    if constexpr (std::is_same_v<Element, Half>) {
      value = RoundToFormat<10, -14>(value);
    } else if constexpr (std::is_same_v<Element, BFloat>) {
      value = RoundToFormat<7, -126>(value);
    }
    StoreFloats(hn::Rebind<float, Tag<T>>(), Narrow(value), to);
  }
}

// Elements from `to` to the next cache line.
template <typename Element>
HWY_INLINE std::int64_t ElementsToLine(const Element* to) {
  constexpr std::uintptr_t kLine = 64;
  return static_cast<std::int64_t>((kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine / sizeof(Element));
}

// StoreVec past the cache, where the elements are whole vectors: Highway streams no parts of one. `to`
// is a whole number of vectors away from the start of a cache line.
template <typename T, typename Element>
HWY_INLINE void StreamVec(VecOf<T> value, Element* to) {
  const Tag<T> d;
  if constexpr (std::is_same_v<T, Element>) {
    hn::Stream(value, d, to);
  } else if constexpr (std::is_same_v<T, float> && sizeof(Element) == 2 && kLanes<T> >= 8) {
    hn::Stream(RoundFloats(d, value, Element()), hn::Rebind<std::uint16_t, Tag<T>>(), &to->bits);
  } else {
    StoreVec<T>(value, to);
  }
}

#if SOFTMAX_HAS_MASKED_SIXTEEN
// Two vectors of floats, none of them NaN, as one vector of bf16.
HWY_INLINE hn::Vec<hn::ScalableTag<std::uint16_t>> RoundTwo(VecOf<float> first, VecOf<float> second) {
  const Tag<float> d;
  const hn::ScalableTag<std::uint16_t> d16;
  return hn::ConcatOdd(d16, hn::BitCast(d16, RoundedBits(d, second)), hn::BitCast(d16, RoundedBits(d, first)));
}
#endif

// Stores the first `count` elements, 0 < count <= kLanes<T>.
template <typename T, typename Element>
HWY_INLINE void StorePartialVec(VecOf<T> value, Element* to, std::int64_t count) {
  if (count == kLanes<T>) {
    return StoreVec<T>(value, to);
  }
#if SOFTMAX_HAS_MASKED_MEMORY
  if constexpr (std::is_same_v<T, Element>) {
    const Tag<T> d;
    return hn::BlendedStore(value, hn::FirstN(d, static_cast<std::size_t>(count)), d, to);
  }
#endif
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (sizeof(Element) == 2 && std::is_same_v<T, float>) {
    const hn::Rebind<std::uint16_t, Tag<T>> d;
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(count));
    return hn::BlendedStore(RoundFloats(Tag<T>(), value, Element()), mask, d, &to->bits);
  }
#endif
  Element whole[kLanes<T>];
  StoreVec<T>(value, whole);
  std::memcpy(to, whole, static_cast<std::size_t>(count) * sizeof(Element));
}

// The same for a `count` of any size.
template <typename T, typename Element>
HWY_INLINE void StoreSomeVec(VecOf<T> value, Element* to, std::int64_t count) {
  if (count > 0) {
    StorePartialVec<T>(value, to, std::min<std::int64_t>(count, kLanes<T>));
  }
}

// LoadSomeVec and StoreSomeVec without a branch where the target has masks for that: for several vectors side by side
// of which one is in part and others may be missing.
template <typename T, typename Element>
HWY_INLINE VecOf<T> LoadMaskedVec(const Element* from, std::int64_t count) {
#if SOFTMAX_HAS_MASKED_SIXTEEN
  const auto lanes = static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, kLanes<T>));
  if constexpr (std::is_same_v<T, Element>) {
    const Tag<T> d;
    const auto mask = hn::FirstN(d, lanes);
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), hn::Set(d, Constants<T>::kNegativeInfinity));
  } else if constexpr (sizeof(Element) == 2 && std::is_same_v<T, float>) {
    const hn::Rebind<std::uint16_t, Tag<T>> d;
    const auto mask = hn::FirstN(d, lanes);
    const auto bits = hn::IfThenElse(mask, hn::MaskedLoad(mask, d, &from->bits),
                                     hn::Set(d, std::uint16_t{Constants<Element>::kNegativeInfinity.bits}));
    return Widen(Tag<T>(), bits, Element());
  }
#endif
  return LoadSomeVec<T>(from, count);
}

template <typename T>
HWY_INLINE void StoreMaskedVec(VecOf<T> value, T* to, std::int64_t count) {
#if SOFTMAX_HAS_MASKED_SIXTEEN
  const Tag<T> d;
  const auto lanes = static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, kLanes<T>));
  hn::BlendedStore(value, hn::FirstN(d, lanes), d, to);
#else
  StoreSomeVec<T>(value, to, count);
#endif
}

// The type that elements are computed in.
template <typename In>
using ComputedIn = std::conditional_t<std::is_same_v<In, double>, double, float>;

// Calls run(element) with an element of the type, which only names it.
template <typename F>
HWY_INLINE void WithType(DataType type, F run) {
  switch (type) {
    case DataType::kFloat32:
      return run(float());
    case DataType::kFloat16:
      return run(Half());
    case DataType::kBFloat16:
      return run(BFloat());
    case DataType::kFloat64:
      return run(double());
  }
}

// Calls run(input, output) with an element of each type.
template <typename F>
HWY_INLINE void WithTypes(DataType input_type, DataType output_type, F run) {
  WithType(input_type,
           [&](auto input) HWY_ATTR { WithType(output_type, [&](auto output) HWY_ATTR { run(input, output); }); });
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
