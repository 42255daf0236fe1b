// The largest elements of rows whose elements lie side by side and the sums of their exponentials, once per Highway
// target.
#if defined(SOFTMAX_KERNELS_CPU_ROW_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_ROW_SUMS_INL_H_
#undef SOFTMAX_KERNELS_CPU_ROW_SUMS_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_ROW_SUMS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/sums-inl.h"
#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

#if SOFTMAX_HAS_MASKED_SIXTEEN
// The largest of `count` elements, a multiple of 128: the even ones and the odd ones of a vector of 32 are each a
// vector of floats after one instruction.
HWY_INLINE VecOf<float> MaxOfPairs(const BFloat* in, std::int64_t count) {
  const Tag<float> d;
  const hn::Rebind<std::uint32_t, Tag<float>> d32;
  VecOf<float> max[4];
  for (auto& vec : max) {
    vec = hn::Set(d, Constants<float>::kNegativeInfinity);
  }
  for (std::int64_t i = 0; i < count; i += 8 * kLanes<float>) {
    HWY_UNROLL(4)
    for (int u = 0; u < 4; ++u) {
      const auto* const from = &in[i + u * 2 * kLanes<float>].bits;
      const auto pairs = hn::BitCast(d32, hn::LoadU(hn::ScalableTag<std::uint16_t>(), from));
      const auto evens = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
      const auto odds = hn::BitCast(d, hn::And(pairs, hn::Set(d32, 0xffff0000u)));
      max[u] = hn::Max(max[u], hn::Max(evens, odds));
    }
  }
  return hn::Max(hn::Max(max[0], max[1]), hn::Max(max[2], max[3]));
}
#endif

// The largest of the elements that go through each lane. Where one is NaN it may be any of them: the sum is NaN then.
template <typename T, typename Element>
HWY_INLINE VecOf<T> MaxOfLanes(const Element* in, std::int64_t count) {
  const Tag<T> d;
  constexpr std::int64_t kL = kLanes<T>;
  auto a = hn::Set(d, Constants<T>::kNegativeInfinity);
  auto b = a;
  auto c = a;
  auto e = a;
  std::int64_t i = 0;
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (std::is_same_v<Element, BFloat> && std::is_same_v<T, float>) {
    i = count / (8 * kL) * (8 * kL);
    a = MaxOfPairs(in, i);
  }
#endif
  for (; i + 4 * kL <= count; i += 4 * kL) {
    a = hn::Max(a, LoadVec<T>(in + i));
    b = hn::Max(b, LoadVec<T>(in + i + kL));
    c = hn::Max(c, LoadVec<T>(in + i + 2 * kL));
    e = hn::Max(e, LoadVec<T>(in + i + 3 * kL));
  }
  for (; i < count; i += kL) {
    a = hn::Max(a, LoadPartialVec<T>(in + i, std::min(kL, count - i)));
  }
  return hn::Max(hn::Max(a, b), hn::Max(c, e));
}

// `count` elements as T, and minus infinity to the end of a vector.
template <typename T, typename Element>
HWY_NOINLINE void WidenRow(const Element* in, std::int64_t count, T* to) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    hn::StoreU(LoadVec<T>(in + i), Tag<T>(), to + i);
  }
  if (i < count) {
    hn::StoreU(LoadPartialVec<T>(in + i, count - i), Tag<T>(), to + i);
  }
}

// The largest element.
template <typename T, typename Element>
HWY_NOINLINE T MaxOfRow(const Element* in, std::int64_t count) {
  return hn::GetLane(LargestLane<T>(MaxOfLanes<T>(in, count)));
}

// Adds the exponentials of `count` elements, kCount vectors or less, to the partial sums and writes them to `kept`,
// which may be `in`.
template <bool kWhole, int kCount, typename T, typename Element, Grade kGrade>
HWY_INLINE void AddExps(const Element* in, std::int64_t count, VecOf<T> max, const Factor<T, kGrade>& factor, T* kept,
                        VecOf<T>* HWY_RESTRICT partials) {
  constexpr std::int64_t kL = kLanes<T>;
  VecOf<T> e[kCount];
  HWY_UNROLL(8)
  for (int u = 0; u < kCount; ++u) {
    e[u] = hn::Sub(kWhole ? LoadVec<T>(in + u * kL) : LoadMaskedVec<T>(in + u * kL, count - u * kL), max);
  }
  BiasedExps<T>(e, factor);
  HWY_UNROLL(8)
  for (int u = 0; u < kCount; ++u) {
    partials[u % kPartialVecs<T>] = hn::Add(partials[u % kPartialVecs<T>], e[u]);
    if constexpr (kWhole) {
      hn::StoreU(e[u], Tag<T>(), kept + u * kL);
    } else {
      StoreMaskedVec<T>(e[u], kept + u * kL, count - u * kL);
    }
  }
}

// The same for one vector of each partial sum, or less, where they are more than go side by side.
template <bool kWhole, typename T, typename Element, Grade kGrade>
HWY_INLINE void AddExpsOnce(const Element* in, std::int64_t count, VecOf<T> max, const Factor<T, kGrade>& factor,
                            T* kept, VecOf<T>* HWY_RESTRICT partials) {
  constexpr int kCount = std::min(kPartialVecs<T>, kSideBySide);
  for (int u = 0; u < kPartialVecs<T>; u += kCount) {
    const std::int64_t at = u * kLanes<T>;
    AddExps<kWhole, kCount, T>(in + at, count - at, max, factor, kept + at, partials + u);
  }
}

// The elements that are taken in one step: as many vectors as go side by side, but each partial sum once.
template <typename T>
constexpr int kStepVecs = std::max(kPartialVecs<T>, kSideBySide);
template <typename T>
constexpr std::int64_t kStep = std::int64_t{kLanes<T>} * kStepVecs<T>;

// AddExps for kStep elements. `next` is where those of the next row most likely are; nullptr: not to be fetched.
template <typename T, typename Element, Grade kGrade>
HWY_INLINE void AddStep(const Element* in, const Element* next, VecOf<T> max, const Factor<T, kGrade>& factor, T* kept,
                        VecOf<T>* HWY_RESTRICT partials) {
  if (next != nullptr) {
    HWY_UNROLL(16)
    for (std::int64_t line = 0; line < kStep<T>; line += 64 / sizeof(Element)) {
      hwy::Prefetch(next + line);
    }
  }
  if constexpr (kStep<T> != kPartials<T>) {
    AddExps<true, kSideBySide, T>(in, kStep<T>, max, factor, kept, partials);
  } else {
    AddExpsOnce<true, T>(in, kStep<T>, max, factor, kept, partials);
  }
}

// AddExps for half a tile or less.
template <typename T, typename Element, Grade kGrade>
HWY_INLINE void AddPartOfHalf(const Element* in, std::int64_t count, const Element* next, VecOf<T> max,
                              const Factor<T, kGrade>& factor, T* kept, VecOf<T>* HWY_RESTRICT partials) {
  std::int64_t i = 0;
  for (; i + kStep<T> <= count; i += kStep<T>) {
    AddStep<T>(in + i, next == nullptr ? nullptr : next + i, max, factor, kept + i, partials);
  }
  if constexpr (kStep<T> != kPartials<T>) {
    // Vectors that are not there cost less than steps one after the other.
    if (count - i > kStep<T> - kPartials<T>) {
      return AddExps<false, kSideBySide, T>(in + i, count - i, max, factor, kept + i, partials);
    }
    for (; i + kPartials<T> <= count; i += kPartials<T>) {
      AddExpsOnce<true, T>(in + i, kPartials<T>, max, factor, kept + i, partials);
    }
  }
  if (i < count) {
    AddExpsOnce<false, T>(in + i, count - i, max, factor, kept + i, partials);
  }
}

// The partial sums of a tile or less: those of its halves, added.
template <typename T, typename Element, Grade kGrade>
HWY_INLINE void AddPart(const Element* in, std::int64_t count, const Element* next, VecOf<T> max,
                        const Factor<T, kGrade>& factor, T* kept, VecOf<T>* HWY_RESTRICT sums) {
  constexpr std::int64_t kHalf = kHalfTile<T>;
  for (std::int64_t begin = 0; begin < count; begin += kHalf) {
    VecOf<T> partials[kPartialVecs<T>];
    for (auto& partial : partials) {
      partial = hn::Zero(Tag<T>());
    }
    AddPartOfHalf<T>(in + begin, std::min(count - begin, kHalf), next == nullptr ? nullptr : next + begin, max, factor,
                     kept + begin, partials);
    for (int u = 0; u < kPartialVecs<T>; ++u) {
      sums[u] = begin == 0 ? partials[u] : hn::Add(sums[u], partials[u]);
    }
  }
}

// The biased sum of the row's exponentials, which are written to `kept` unless that is nullptr; it may be `in`. `next`
// is where the next row's elements most likely are, or nullptr.
template <typename T, typename Element, Grade kGrade>
HWY_NOINLINE Sum SumOfRowBy(const Element* in, std::int64_t count, const Element* next, T max,
                            const Factor<T, kGrade>& factor, T* kept) {
  const Tag<T> d;
  constexpr int kVecs = kPartialVecs<T>;
  static_assert(kHalfTile<T> % kStep<T> == 0);
  // Writing where nothing is kept costs less than a second form of everything here.
  HWY_ALIGN T unused[kTile<T>];
  const std::int64_t kept_tile = kept == nullptr ? 0 : kTile<T>;
  kept = kept == nullptr ? unused : kept;
  const auto maximum = hn::Set(d, max);
  VecOf<T> sums[kVecs];
  VecOf<T> rests[kVecs];
  for (int u = 0; u < kVecs; ++u) {
    sums[u] = rests[u] = hn::Zero(d);
  }
  std::int64_t tile = 0;
  for (; tile + kTile<T> <= count && count != kTile<T>; tile += kTile<T>) {
    VecOf<T> first[kVecs];
    VecOf<T> second[kVecs];
    for (int u = 0; u < kVecs; ++u) {
      first[u] = second[u] = hn::Zero(d);
    }
    std::int64_t i = 0;
    for (; i < kHalfTile<T>; i += kStep<T>) {
      AddStep<T>(in + tile + i, next == nullptr ? nullptr : next + tile + i, maximum, factor, kept + i, first);
    }
    for (; i < kTile<T>; i += kStep<T>) {
      AddStep<T>(in + tile + i, next == nullptr ? nullptr : next + tile + i, maximum, factor, kept + i, second);
    }
    for (int u = 0; u < kVecs; ++u) {
      AddExactly(hn::Add(first[u], second[u]), sums[u], rests[u]);
    }
    kept += kept_tile;
  }
  if (tile < count) {
    VecOf<T> partials[kVecs];
    AddPart<T>(in + tile, count - tile, next == nullptr ? nullptr : next + tile, maximum, factor, kept, partials);
    if (tile == 0) {
      return TotalOfVecs<false, T, kVecs>(partials, nullptr);
    }
    for (int u = 0; u < kVecs; ++u) {
      AddExactly(partials[u], sums[u], rests[u]);
    }
  }
  return TotalOfVecs<true, T, kVecs>(sums, rests);
}

template <typename T, typename Element>
HWY_INLINE Sum SumOfRow(const Element* in, std::int64_t count, const Element* next, T max, const AnyFactor<T>& factor,
                        T* kept) {
  return WithGrade(factor,
                   [&](const auto& graded) HWY_ATTR { return SumOfRowBy<T>(in, count, next, max, graded, kept); });
}

// What follows a row is most likely the next one. Beyond what the second-level cache holds it would be gone again
// before it is read.
template <typename Element>
HWY_INLINE const Element* NextRow(const Element* in, std::int64_t count) {
  return count <= (std::int64_t{256} << 10) / static_cast<std::int64_t>(sizeof(Element)) ? in + count : nullptr;
}

template <typename In>
struct InputRow {
  const In* in;
  std::int64_t count;  // of the elements that matter
};

template <typename In>
InputRow<In> InputOf(const Segment& segment, std::int64_t row) {
  return {static_cast<const In*>(segment.input) + row * segment.input_stride,
          segment.lengths == nullptr ? segment.cols : segment.lengths[row]};
}

// The largest elements of rows [begin, end), one after the other. A row's last step waits for the sum of its lanes and
// a division; the next row's largest element is found meanwhile, unless it is so long that this would push the first
// row's exponentials out of the nearest cache.
template <typename T, typename In>
class Maxima {
 public:
  Maxima(const Segment& segment, std::int64_t begin, std::int64_t end)
      : segment_(segment), end_(segment.cols <= kLongest ? end : 0), next_(begin) {}

  // The next row's, looked for now unless that was done.
  T Take() {
    const T max = is_known_ ? max_ : Largest();
    is_known_ = false;
    ++next_;
    return max;
  }

  void LookAhead() {
    if (next_ < end_) {
      max_ = Largest();
      is_known_ = true;
    }
  }

 private:
  static constexpr std::int64_t kLongest = 8192 / sizeof(In);

  T Largest() const {
    const auto [in, count] = InputOf<In>(segment_, next_);
    return MaxOfRow<T>(in, count);
  }

  const Segment& segment_;
  const std::int64_t end_;  // of those that are looked for ahead
  std::int64_t next_;
  bool is_known_ = false;
  T max_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
