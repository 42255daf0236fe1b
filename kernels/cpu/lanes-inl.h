// Reductions of several vectors side by side, once per Highway target: as many as a vector has lanes, with a third of
// the steps that one after the other takes, as none is done for lanes that no longer matter.
#if defined(SOFTMAX_KERNELS_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_LANES_INL_H_
#undef SOFTMAX_KERNELS_CPU_LANES_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_LANES_INL_H_
#endif

#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Two vectors, to be combined lane by lane.
template <class V>
struct Halves {
  V lower;
  V upper;
};

// What is to be combined where lanes i and i + kWidth of every 2 * kWidth lanes become one: of `a` and `b` in turns,
// kWidth lanes each.
template <int kWidth, typename T>
HWY_INLINE Halves<VecOf<T>> HalvesOf(VecOf<T> a, VecOf<T> b) {
  const Tag<T> d;
  constexpr std::size_t kBytes = kWidth * sizeof(T);
  if constexpr (2 * kWidth == kLanes<T>) {
    return {hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a)};
  } else if constexpr (kBytes == 16) {
    return {hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a), hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a))};
  } else if constexpr (kBytes == 8) {
    const hn::Repartition<double, Tag<T>> pairs;
    const auto a_pairs = hn::BitCast(pairs, a);
    const auto b_pairs = hn::BitCast(pairs, b);
    return {hn::BitCast(d, hn::InterleaveLower(pairs, a_pairs, b_pairs)),
            hn::BitCast(d, hn::InterleaveUpper(pairs, a_pairs, b_pairs))};
  } else {
    return {hn::OddEven(hn::DupEven(b), a), hn::OddEven(b, hn::DupOdd(a))};
  }
}

// Lane i: the largest of vecs[i], which is used up. Where a lane is NaN it may be any of them.
template <typename T, int kWidth = kLanes<T> / 2>
HWY_INLINE VecOf<T> LargestLanes(VecOf<T>* HWY_RESTRICT vecs) {
  HWY_UNROLL(8)
  for (int i = 0; i < kWidth; ++i) {
    const auto halves = HalvesOf<kWidth, T>(vecs[i], vecs[i + kWidth]);
    vecs[i] = hn::Max(halves.lower, halves.upper);
  }
  if constexpr (kWidth > 1) {
    return LargestLanes<T, kWidth / 2>(vecs);
  } else {
    return vecs[0];
  }
}

// Lane i: FoldVec of levels[i], which is used up.
template <typename T, int kWidth = kLanes<double> / 2>
HWY_INLINE Level FoldLanes(Level* HWY_RESTRICT levels) {
  HWY_UNROLL(4)
  for (int i = 0; i < kWidth; ++i) {
    auto sums = HalvesOf<kWidth, double>(levels[i].sums, levels[i + kWidth].sums);
    if constexpr (sizeof(T) == 8) {
      const auto rests = HalvesOf<kWidth, double>(levels[i].rests, levels[i + kWidth].rests);
      levels[i].rests = hn::Add(rests.lower, rests.upper);
      AddExactly(sums.upper, sums.lower, levels[i].rests);
      levels[i].sums = sums.lower;
    } else {
      levels[i].sums = hn::Add(sums.lower, sums.upper);
    }
  }
  if constexpr (kWidth > 1) {
    return FoldLanes<T, kWidth / 2>(levels);
  } else {
    return levels[0];
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
