// Sums of exponentials whose bits depend on the columns' indices and values only.
//
// Column c belongs to partial sum c % kPartials, on every target. Each half of a tile of kTile columns
// is summed plainly from zero (4 additions a partial sum), then the halves are added: four roundings in a
// row, where eight columns one after the other would take seven, too many for the promise if all go the
// same way. Tiles are added with the rounding error kept. At the end the partial sums are added as one
// fixed tree. A column that is missing counts as +0, which changes no bit.
#if defined(SOFTMAX_KERNELS_CPU_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_SUMS_INL_H_
#undef SOFTMAX_KERNELS_CPU_SUMS_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_SUMS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>

#include "kernels/cpu/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
constexpr int kPartials = sizeof(T) == 4 ? 32 : 16;
template <typename T>
constexpr int kHalfTile = kPartials<T> * 4;
template <typename T>
constexpr int kTile = 2 * kHalfTile<T>;
template <typename T>
constexpr int kPartialVecs = kPartials<T> / kLanes<T>;

// Rows that go through a batch side by side (short_rows-inl.h): eight of the widest are 16 KiB of exponentials.
template <typename T>
constexpr std::int64_t kShort = HWY_TARGET == HWY_SCALAR ? 0 : 2048 / sizeof(T);

// sum += value; the rounding error goes to rest (Knuth's TwoSum).
template <typename V>
HWY_INLINE void AddExactly(V value, V& sum, V& rest) {
  const V next = hn::Add(sum, value);
  const V virtual_value = hn::Sub(next, sum);
  const V sum_error = hn::Sub(sum, hn::Sub(next, virtual_value));
  const V value_error = hn::Sub(value, virtual_value);
  rest = hn::Add(rest, hn::Add(sum_error, value_error));
  sum = next;
}

// A sum as the nearest double and what is missing.
struct Sum {
  double high;
  double low;
};

// The tree: partial sum i takes partial sum i + width, for width = half, quarter, ... 1. Rounding
// errors are kept where T is double; partial sums of floats leave a double bits enough.
//
// This one is of kCount vectors, each a partial sum of several rows or several partial sums of one.
template <typename T, int kCount>
HWY_INLINE void FoldTree(VecOf<double>* HWY_RESTRICT sums, VecOf<double>* HWY_RESTRICT rests) {
  HWY_UNROLL(4)
  for (int width = kCount / 2; width > 0; width /= 2) {
    HWY_UNROLL(4)
    for (int i = 0; i < width; ++i) {
      if constexpr (sizeof(T) == 8) {
        rests[i] = hn::Add(rests[i], rests[i + width]);
        AddExactly(sums[i + width], sums[i], rests[i]);
      } else {
        sums[i] = hn::Add(sums[i], sums[i + width]);
      }
    }
  }
}

// The same tree for vectors: each level adds the upper half of what is left to the lower half.
template <typename T, class D>
HWY_INLINE Sum FoldVec(D d, hn::Vec<D> sums, hn::Vec<D> rests) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    (void)d;
    return {hn::GetLane(sums), hn::GetLane(rests)};
  } else {
#if HWY_TARGET != HWY_SCALAR
    const hn::Half<D> half;
    auto sum = hn::LowerHalf(half, sums);
    const auto other = hn::UpperHalf(half, sums);
    auto rest = hn::LowerHalf(half, rests);
    if constexpr (sizeof(T) == 8) {
      rest = hn::Add(rest, hn::UpperHalf(half, rests));
      AddExactly(other, sum, rest);
    } else {
      sum = hn::Add(sum, other);
    }
    return FoldVec<T>(half, sum, rest);
#endif
  }
}

// The sums that are left at one level of the tree, as a vector.
struct Level {
  VecOf<double> sums;
  VecOf<double> rests;
};

// The levels of the tree at which there is more than a vector of sums. The partial sums are given as vectors, those
// beyond kVecs vectors being zero; without kRests `rests` is not read.
template <bool kRests, typename T, int kVecs>
HWY_INLINE Level FoldToVec(const VecOf<T>* from, const VecOf<T>* from_rests) {
  const Tag<double> d;
  constexpr int kWide = kVecs * kLanes<T> / kLanes<double>;
  VecOf<double> sums[kWide];
  VecOf<double> rests[kWide];
  HWY_UNROLL(8)
  for (int i = 0; i < kWide; ++i) {
    if constexpr (sizeof(T) == 8) {
      sums[i] = from[i];
      rests[i] = kRests ? from_rests[i] : hn::Zero(d);
    } else {
      constexpr int kParts = kLanes<T> / kLanes<double>;
      const auto part = [&](VecOf<T> vec) HWY_ATTR {
#if HWY_TARGET == HWY_SCALAR
        return hn::PromoteTo(d, vec);
#else
        const hn::Half<Tag<T>> half;
        return hn::PromoteTo(d, i % kParts == 0 ? hn::LowerHalf(half, vec) : hn::UpperHalf(half, vec));
#endif
      };
      sums[i] = part(from[i / kParts]);
      if constexpr (kRests) {
        sums[i] = hn::Add(sums[i], part(from_rests[i / kParts]));
      }
    }
  }
  FoldTree<T, kWide>(sums, rests);
  if constexpr (sizeof(T) == 4) {
    return {sums[0], hn::Zero(d)};
  }
  return {sums[0], rests[0]};
}

// The total of partial sums given as to FoldToVec.
template <bool kRests, typename T, int kVecs>
HWY_INLINE Sum TotalOfVecs(const VecOf<T>* from, const VecOf<T>* from_rests) {
  const Level level = FoldToVec<kRests, T, kVecs>(from, from_rests);
  const Sum total = FoldVec<T>(Tag<double>(), level.sums, level.rests);
  const double high = total.high + total.low;
  return {high, total.low - (high - total.high)};
}

// The same totals of several rows side by side, as many as a vector has doubles: partial sum p of row i is at
// p * stride + i.
template <typename T>
HWY_NOINLINE void StoreTotalsOfRows(const T* HWY_RESTRICT sums, const T* HWY_RESTRICT rests, int stride,
                                    double* HWY_RESTRICT highs, double* HWY_RESTRICT lows) {
  const Tag<double> d;
  VecOf<double> sum[kPartials<T>];
  VecOf<double> rest[kPartials<T>];
  for (int p = 0; p < kPartials<T>; ++p) {
    sum[p] = LoadVec<double>(sums + p * stride);
    rest[p] = LoadVec<double>(rests + p * stride);
    if constexpr (sizeof(T) == 4) {
      sum[p] = hn::Add(sum[p], rest[p]);
    }
  }
  FoldTree<T, kPartials<T>>(sum, rest);
  if constexpr (sizeof(T) == 4) {
    hn::Store(sum[0], d, highs);
    hn::Store(hn::Zero(d), d, lows);
  } else {
    const auto high = hn::Add(sum[0], rest[0]);
    hn::Store(high, d, highs);
    hn::Store(hn::Sub(rest[0], hn::Sub(high, sum[0])), d, lows);
  }
}

template <typename T>
HWY_INLINE T InverseOfBiased(Sum total) {
  return static_cast<T>(1.0 / total.high);
}

// The logarithm of a long row's total; in twice the precision where T is double.
template <typename T>
HWY_INLINE Sum LogOfBiased(Sum total) {
  if constexpr (sizeof(T) == 4) {
    return {std::log(total.high * 0x1p-64), 0.0};
  } else {
    const long double log =
        std::log(static_cast<long double>(total.high * 0x1p-512)) + static_cast<long double>(total.low / total.high);
    const auto high = static_cast<double>(log);
    return {high, static_cast<double>(log - high)};
  }
}

// The logarithms of short rows' totals, in place of those. Of floats they are Highway's, a vector of rows at a time
// (4 ulp of a double), and the arrays are read to the end of a vector. A long row has nothing to hide their latency,
// which is more than that of the C library's. Rows along another axis choose alike, as they have the same bits.
template <typename T>
HWY_NOINLINE void TakeLogs(int rows, double* HWY_RESTRICT highs, double* HWY_RESTRICT lows) {
  if constexpr (sizeof(T) == 4) {
    const Tag<double> d;
    for (int r = 0; r < rows; r += kLanes<double>) {
      const auto total = hn::Load(d, highs + r);
      const auto log = hn::Log(d, hn::Mul(total, hn::Set(d, 0x1p-64)));
      hn::Store(hn::IfThenElse(hn::IsNaN(total), total, log), d, highs + r);  // Highway's of NaN is some number
    }
  } else {
    for (int r = 0; r < rows; ++r) {
      const Sum log = LogOfBiased<T>({highs[r], lows[r]});
      highs[r] = log.high;
      lows[r] = log.low;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
