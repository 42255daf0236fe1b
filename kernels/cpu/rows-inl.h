// Softmax of rows whose elements lie side by side, once per Highway target.
#if defined(SOFTMAX_KERNELS_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_ROWS_INL_H_
#undef SOFTMAX_KERNELS_CPU_ROWS_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_ROWS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/log-inl.h"
#include "kernels/cpu/row_sums-inl.h"
#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// Exponentials of one row kept on the stack while the output cannot hold them (256 KiB).
template <typename T>
constexpr std::int64_t kMostKept = 262144 / sizeof(T);

// The last step of a row, element by element: loads from where the step says, and what it makes of
// `count` elements from `i` on.
template <typename T>
struct ScaleStep {
  using Element = T;
  const T* kept;
  VecOf<T> inverse;

  HWY_INLINE VecOf<T> Whole(std::int64_t i) const { return hn::Mul(hn::LoadU(Tag<T>(), kept + i), inverse); }
  HWY_INLINE VecOf<T> Some(std::int64_t i, std::int64_t count) const {
    return hn::Mul(LoadPartialVec<T>(kept + i, count), inverse);
  }
};

// Computes the exponentials a second time: for rows too long to keep them.
template <typename T, typename In, Grade kGrade>
struct ExpStep {
  using Element = T;
  const In* in;
  VecOf<T> max;
  VecOf<T> inverse;
  Factor<T, kGrade> factor;

  HWY_INLINE VecOf<T> Whole(std::int64_t i) const { return Of(LoadVec<T>(in + i)); }
  HWY_INLINE VecOf<T> Some(std::int64_t i, std::int64_t count) const { return Of(LoadPartialVec<T>(in + i, count)); }
  HWY_INLINE VecOf<T> Of(VecOf<T> x) const {
    VecOf<T> e[] = {hn::Sub(x, max)};
    BiasedExps<T>(e, factor);
    return hn::Mul(e[0], inverse);
  }
};

template <typename T, typename In, typename Out>
struct LogStep {
  using Element = LogElement<T, Out>;
  const In* in;
  LogRows row;
  VecOf<double> scale;

  HWY_INLINE VecOf<Element> Whole(std::int64_t i) const { return LogsOf<T>(LoadVec<Element>(in + i), row, row, scale); }
  HWY_INLINE VecOf<Element> Some(std::int64_t i, std::int64_t count) const {
    return LogsOf<T>(LoadPartialVec<Element>(in + i, count), row, row, scale);
  }
};

template <typename In>
struct FloatLogStep {
  using Element = float;
  const In* in;
  VecOf<float> max;
  VecOf<float> log_sum;
  VecOf<float> scale;

  HWY_INLINE VecOf<float> Whole(std::int64_t i) const {
    return FloatLogOf(LoadVec<float>(in + i), max, log_sum, scale);
  }
  HWY_INLINE VecOf<float> Some(std::int64_t i, std::int64_t count) const {
    return FloatLogOf(LoadPartialVec<float>(in + i, count), max, log_sum, scale);
  }
};

// A row whose `count` elements that matter include a NaN or +inf, or are all -inf, or are none.
template <typename Out>
void FillNan(Out* out, std::int64_t count, const Segment& segment) {
  const bool is_log = segment.operation == Operation::kLogSoftmax;
  const std::int64_t nans = count == 0 ? segment.cols : count;
  std::fill(out, out + nans, Constants<Out>::kNan);
  std::fill(out + nans, out + segment.cols, is_log ? Constants<Out>::kNegativeInfinity : Constants<Out>::kZero);
}

#if SOFTMAX_HAS_MASKED_SIXTEEN
// Writes elements [i, end) of a row without NaN, as far as pairs of vectors go, and returns where that is.
template <bool kStreams, class Step>
HWY_INLINE std::int64_t WritePairs(const Step& step, std::int64_t i, std::int64_t end, BFloat* out) {
  constexpr std::int64_t kL = kLanes<float>;
  const hn::ScalableTag<std::uint16_t> d16;
  for (; i + 2 * kL <= end; i += 2 * kL) {
    const auto bits = RoundTwo(step.Whole(i), step.Whole(i + kL));
    if constexpr (kStreams) {
      hn::Stream(bits, d16, &out[i].bits);
    } else {
      hn::StoreU(bits, d16, &out[i].bits);
    }
  }
  return i;
}
#endif

// Writes a row without NaN. With kStreams whole cache lines go past the cache, for outputs that it cannot hold.
template <bool kStreams, class Step, typename Out>
void WriteRowBy(const Step& given, std::int64_t count, Out* out) {
  const Step step = given;  // which no store to the output can change, so that it stays in registers
  using E = typename Step::Element;
  constexpr std::int64_t kL = kLanes<E>;
  [[maybe_unused]] constexpr bool kInPairs = std::is_same_v<E, float> && std::is_same_v<Out, BFloat>;
  std::int64_t i = 0;
  if constexpr (kStreams) {
    const std::int64_t head = std::min(count, ElementsToLine(out));
    for (; i < head; i += std::min(kL, head - i)) {
      const std::int64_t some = std::min(kL, head - i);
      StorePartialVec<E>(step.Some(i, some), out + i, some);
    }
  }
  if constexpr (kStreams) {
    constexpr std::int64_t kLine = 64 / sizeof(Out);
    const std::int64_t end = i + (count - i) / kLine * kLine;
#if SOFTMAX_HAS_MASKED_SIXTEEN
    if constexpr (kInPairs) {
      i = WritePairs<true>(step, i, end, out);
    }
#endif
    for (; i + kL <= end; i += kL) {
      StreamVec<E>(step.Whole(i), out + i);
    }
  }
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (kInPairs) {
    i = WritePairs<false>(step, i, count, out);
  }
#endif
  for (; i + kL <= count; i += kL) {
    StoreVec<E>(step.Whole(i), out + i);
  }
  if (i < count) {
    StorePartialVec<E>(step.Some(i, count - i), out + i, count - i);
  }
}

template <class Step, typename Out>
HWY_INLINE void WriteRow(const Step& step, std::int64_t count, bool streams, Out* out) {
  if (HWY_UNLIKELY(streams)) {
    WriteRowBy<true>(step, count, out);
  } else {
    WriteRowBy<false>(step, count, out);
  }
}

// Hands the last step of a row of log-softmax to `write`.
template <typename T, typename Out, typename In, class Write>
HWY_INLINE void WithLogStep(const In* in, T max, double scale, Sum log_sum, Write write) {
  if constexpr (sizeof(T) == 4 && sizeof(Out) == 2) {
    if (LogsInFloats<T, Out>(scale)) {
      const Tag<float> d;
      const auto log = hn::Set(d, static_cast<float>(log_sum.high));
      return write(FloatLogStep<In>{in, hn::Set(d, max), log, hn::Set(d, static_cast<float>(scale))});
    }
  }
  const Tag<double> d;
  const auto part = hn::Set(d, kLogPart<T> * static_cast<double>(max));
  const LogRows row{part, hn::Set(d, log_sum.high), hn::Set(d, log_sum.low)};
  write(LogStep<T, In, Out>{in, row, hn::Set(d, scale / kLogPart<T>)});
}

template <typename T, typename In, typename Out>
HWY_NOINLINE void LogRow(const In* in, std::int64_t count, T max, double scale, Sum log_sum, bool streams, Out* out) {
  WithLogStep<T, Out>(in, max, scale, log_sum, [&](const auto& step) HWY_ATTR { WriteRow(step, count, streams, out); });
}

// Keeps the exponentials beside the output, which cannot hold them or is better written once.
template <typename T, typename In, typename Out, Grade kGrade>
HWY_NOINLINE void SoftmaxRowAside(const In* in, Out* out, std::int64_t count, T max, const Factor<T, kGrade>& factor,
                                  const Segment& segment, bool streams, Maxima<T, In>& maxima) {
  HWY_ALIGN T kept[kMostKept<T>];
  const Sum total = SumOfRow<true, T>(in, count, max, factor, kept);
  maxima.LookAhead();
  if (HWY_UNLIKELY(std::isnan(total.high))) {
    return FillNan(out, count, segment);
  }
  WriteRow(ScaleStep<T>{kept, hn::Set(Tag<T>(), InverseOfBiased<T>(total))}, count, streams, out);
}

template <typename T, typename In, typename Out, Grade kGrade>
HWY_INLINE void SoftmaxRow(const In* in, Out* out, std::int64_t count, T max, const Factor<T, kGrade>& factor,
                           const Segment& segment, bool streams, Maxima<T, In>& maxima) {
  const Tag<T> d;
  if constexpr (std::is_same_v<T, Out>) {
    if (!streams || count > kMostKept<T>) {
      const Sum total = SumOfRow<true, T>(in, count, max, factor, out);
      maxima.LookAhead();
      return WriteRow(ScaleStep<T>{out, hn::Set(d, InverseOfBiased<T>(total))}, count, false, out);
    }
  }
  if (count <= kMostKept<T>) {
    return SoftmaxRowAside(in, out, count, max, factor, segment, streams, maxima);
  }
  const Sum total = SumOfRow<false, T, In>(in, count, max, factor, nullptr);
  if (HWY_UNLIKELY(std::isnan(total.high))) {
    return FillNan(out, count, segment);
  }
  const auto inverse = hn::Set(d, InverseOfBiased<T>(total));
  WriteRow(ExpStep<T, In, kGrade>{in, hn::Set(d, max), inverse, factor}, count, streams, out);
}

template <typename T, typename In, typename Out, Grade kGrade>
HWY_INLINE void LogSoftmaxRow(const In* in, Out* out, std::int64_t count, T max, const Factor<T, kGrade>& factor,
                              const Segment& segment, bool streams, Maxima<T, In>& maxima) {
  const Sum log_sum = LogOfBiased<T>(SumOfRow<false, T, In>(in, count, max, factor, nullptr));
  maxima.LookAhead();
  if (HWY_UNLIKELY(std::isnan(log_sum.high))) {
    return FillNan(out, count, segment);
  }
  LogRow<T>(in, count, max, segment.scale, log_sum, streams, out);
}

// Whether the output is too large for the last-level cache, as 32 MiB of it beside the input are on
// most machines (what the system says of a virtual one is no guide). Then lines are written past it,
// which saves reading them first. Not for shorter rows, unless they are whole lines: the lines that two rows
// share cost more.
template <typename Out>
bool Streams(const Segment& segment) {
  constexpr std::int64_t kLargestCached = 32 << 20;
  constexpr std::int64_t kShortestRow = 3500;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Out));
  constexpr std::int64_t kLine = 64 / kSize;
  const bool is_whole = segment.cols % kLine == 0 && segment.output_stride % kLine == 0 &&
                        ElementsToLine(static_cast<const Out*>(segment.output)) == 0;
  return segment.outer * segment.output_stride > kLargestCached / kSize &&
         (is_whole || segment.cols >= kShortestRow / kSize);
}

// Rows [begin, end) of a segment with inner == 1.
template <typename T, typename In, typename Out, Grade kGrade>
void RunLongRows(const Segment& segment, const Factor<T, kGrade>& factor, std::int64_t begin, std::int64_t end) {
  const bool is_log = segment.operation == Operation::kLogSoftmax;
  const bool streams = Streams<Out>(segment);
  const Out masked = is_log ? Constants<Out>::kNegativeInfinity : Constants<Out>::kZero;
  Maxima<T, In> maxima(segment, begin, end);
  for (std::int64_t row = begin; row < end; ++row) {
    const auto [in, count] = InputOf<In>(segment, row);
    Out* out = static_cast<Out*>(segment.output) + row * segment.output_stride;
    if (streams) {
      __builtin_prefetch(out + count, 1);  // the line that this row shares with the next is not streamed
    }
    const T max = maxima.Take();
    if (!std::isfinite(max)) {
      FillNan(out, count, segment);
      continue;
    }
    if (is_log) {
      LogSoftmaxRow<T>(in, out, count, max, factor, segment, streams, maxima);
    } else {
      SoftmaxRow<T>(in, out, count, max, factor, segment, streams, maxima);
    }
    std::fill(out + count, out + segment.cols, masked);
  }
  if (streams) {
    hwy::FlushStream();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
