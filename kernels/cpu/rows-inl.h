// Softmax of rows whose elements lie side by side, once per Highway target.
#if defined(SOFTMAX_KERNELS_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_ROWS_INL_H_
#undef SOFTMAX_KERNELS_CPU_ROWS_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/cpu/log-inl.h"
#include "kernels/cpu/sums-inl.h"
#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// Exponentials kept on the stack while an output type cannot hold them (16 KiB).
template <typename T>
constexpr std::int64_t kKept = 16384 / sizeof(T);

// The largest element. Where one is NaN it may be any of the elements: the sum is NaN then.
template <typename T, typename Element>
T MaxOfRow(const Element* in, std::int64_t count) {
  const Tag<T> d;
  constexpr std::int64_t kL = kLanes<T>;
  auto a = hn::Set(d, Constants<T>::kNegativeInfinity);
  auto b = a;
  auto c = a;
  auto e = a;
  std::int64_t i = 0;
  for (; i + 4 * kL <= count; i += 4 * kL) {
    a = hn::Max(a, LoadVec<T>(in + i));
    b = hn::Max(b, LoadVec<T>(in + i + kL));
    c = hn::Max(c, LoadVec<T>(in + i + 2 * kL));
    e = hn::Max(e, LoadVec<T>(in + i + 3 * kL));
  }
  for (; i < count; i += kL) {
    a = hn::Max(a, LoadPartialVec<T>(in + i, std::min(kL, count - i)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(c, e))));
}

// The biased sum of the row's exponentials; kKeep also writes them to `kept`, which may be `in`.
template <bool kKeep, typename T, typename Element>
Sum SumOfRow(const Element* in, std::int64_t count, T max, const Factor<T>& factor, T* kept) {
  const Tag<T> d;
  constexpr std::int64_t kL = kLanes<T>;
  constexpr int kVecs = kPartials<T> / kLanes<T>;
  const auto maximum = hn::Set(d, max);
  VecOf<T> sums[kVecs];
  VecOf<T> rests[kVecs];
  for (int u = 0; u < kVecs; ++u) {
    sums[u] = rests[u] = hn::Zero(d);
  }
  for (std::int64_t tile = 0; tile < count; tile += kTile<T>) {
    const std::int64_t end = std::min<std::int64_t>(count, tile + kTile<T>);
    VecOf<T> partials[kVecs];
    for (int u = 0; u < kVecs; ++u) {
      partials[u] = hn::Zero(d);
    }
    std::int64_t i = tile;
    for (; i + kPartials<T> <= end; i += kPartials<T>) {
      for (int u = 0; u < kVecs; ++u) {
        const auto e = BiasedExp<T>(hn::Sub(LoadVec<T>(in + i + u * kL), maximum), factor);
        if constexpr (kKeep) {
          hn::StoreU(e, d, kept + i + u * kL);
        }
        partials[u] = hn::Add(partials[u], e);
      }
    }
    for (int u = 0; u < kVecs; ++u) {
      const std::int64_t at = i + u * kL;
      if (at < end) {
        const std::int64_t some = std::min(kL, end - at);
        const auto e = BiasedExp<T>(hn::Sub(LoadPartialVec<T>(in + at, some), maximum), factor);
        if constexpr (kKeep) {
          StorePartialVec<T>(e, kept + at, some);
        }
        partials[u] = hn::Add(partials[u], e);
      }
      AddExactly(partials[u], sums[u], rests[u]);
    }
  }
  return Total<T>(sums, rests);
}

// out = kept * inverse. `out` may be `kept`.
template <typename T, typename Element>
void ScaleRow(const T* kept, std::int64_t count, T inverse, Element* out) {
  const Tag<T> d;
  constexpr std::int64_t kL = kLanes<T>;
  const auto by = hn::Set(d, inverse);
  std::int64_t i = 0;
  for (; i + kL <= count; i += kL) {
    StoreVec<T>(hn::Mul(hn::LoadU(d, kept + i), by), out + i);
  }
  if (i < count) {
    StorePartialVec<T>(hn::Mul(LoadPartialVec<T>(kept + i, count - i), by), out + i, count - i);
  }
}

// Computes the exponentials a second time: for long rows whose output type cannot keep them.
template <typename T, typename In, typename Out>
void ExpRow(const In* in, std::int64_t count, T max, const Factor<T>& factor, T inverse, Out* out) {
  const Tag<T> d;
  constexpr std::int64_t kL = kLanes<T>;
  const auto maximum = hn::Set(d, max);
  const auto by = hn::Set(d, inverse);
  std::int64_t i = 0;
  for (; i + kL <= count; i += kL) {
    const auto e = BiasedExp<T>(hn::Sub(LoadVec<T>(in + i), maximum), factor);
    StoreVec<T>(hn::Mul(e, by), out + i);
  }
  if (i < count) {
    const auto e = BiasedExp<T>(hn::Sub(LoadPartialVec<T>(in + i, count - i), maximum), factor);
    StorePartialVec<T>(hn::Mul(e, by), out + i, count - i);
  }
}

template <typename T, typename In, typename Out>
void LogRow(const In* in, std::int64_t count, double max, double scale, Sum log_sum, Out* out) {
  const Tag<double> d;
  constexpr std::int64_t kL = kLanes<double>;
  const auto twice_scale = hn::Set(d, 2 * scale);
  const LogRows rows{hn::Set(d, 0.5 * max), hn::Set(d, log_sum.high), hn::Set(d, log_sum.low)};
  std::int64_t i = 0;
  for (; i + kL <= count; i += kL) {
    StoreVec<double>(LogOf<T>(LoadVec<double>(in + i), rows, twice_scale), out + i);
  }
  if (i < count) {
    const auto x = LoadPartialVec<double>(in + i, count - i);
    StorePartialVec<double>(LogOf<T>(x, rows, twice_scale), out + i, count - i);
  }
}

template <typename T, typename In, typename Out>
HWY_INLINE void SoftmaxRow(const In* in, Out* out, std::int64_t count, T max, const Factor<T>& factor) {
  if constexpr (std::is_same_v<T, Out>) {
    const Sum total = SumOfRow<true, T>(in, count, max, factor, out);
    ScaleRow<T>(out, count, InverseOfBiased<T>(total), out);
  } else if (count <= kKept<T>) {
    HWY_ALIGN T kept[kKept<T>];
    const Sum total = SumOfRow<true, T>(in, count, max, factor, kept);
    ScaleRow<T>(kept, count, InverseOfBiased<T>(total), out);
  } else {
    const Sum total = SumOfRow<false, T, In>(in, count, max, factor, nullptr);
    ExpRow<T>(in, count, max, factor, InverseOfBiased<T>(total), out);
  }
}

template <typename T, typename In, typename Out>
HWY_INLINE void LogSoftmaxRow(const In* in, Out* out, std::int64_t count, T max, const Factor<T>& factor,
                              double scale) {
  const Sum total = SumOfRow<false, T, In>(in, count, max, factor, nullptr);
  LogRow<T>(in, count, static_cast<double>(max), scale, LogOfBiased<T>(total), out);
}

// Rows [begin, end) of a segment with inner == 1.
template <typename T, typename In, typename Out>
void RunRows(const Segment& segment, std::int64_t begin, std::int64_t end) {
  const Factor<T> factor = MakeFactor<T>(segment.scale);
  const bool is_log = segment.operation == Operation::kLogSoftmax;
  const Out masked = is_log ? Constants<Out>::kNegativeInfinity : Constants<Out>::kZero;
  for (std::int64_t row = begin; row < end; ++row) {
    const In* in = static_cast<const In*>(segment.input) + row * segment.input_stride;
    Out* out = static_cast<Out*>(segment.output) + row * segment.output_stride;
    const std::int64_t count = segment.lengths == nullptr ? segment.cols : segment.lengths[row];
    if (count == 0) {
      std::fill(out, out + segment.cols, Constants<Out>::kNan);
      continue;
    }
    const T max = MaxOfRow<T>(in, count);
    if (!std::isfinite(max)) {
      std::fill(out, out + count, Constants<Out>::kNan);
    } else if (is_log) {
      LogSoftmaxRow<T>(in, out, count, max, factor, segment.scale);
    } else {
      SoftmaxRow<T>(in, out, count, max, factor);
    }
    std::fill(out + count, out + segment.cols, masked);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
