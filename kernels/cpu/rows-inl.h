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
#include "kernels/operations.h"
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

template <typename T, typename Out>
struct LogStep {
  using Element = LogElement<T, Out>;
  const T* in;
  LogRows row;
  VecOf<double> scale;

  HWY_INLINE VecOf<Element> Whole(std::int64_t i) const { return LogsOf<T>(LoadVec<Element>(in + i), row, row, scale); }
  HWY_INLINE VecOf<Element> Some(std::int64_t i, std::int64_t count) const {
    return LogsOf<T>(LoadPartialVec<Element>(in + i, count), row, row, scale);
  }
};

struct FloatLogStep {
  using Element = float;
  const float* in;
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

// Elements [count, cols) of a row, of which `count` matter.
template <typename Out>
HWY_NOINLINE void FillMasked(Out* out, std::int64_t count, const Segment& segment) {
  std::fill(out + count, out + segment.cols, MaskedValue<Out>(segment.operation));
}

// A row whose `count` elements that matter include a NaN or +inf, or are all -inf, or are none.
template <typename Out>
HWY_NOINLINE void FillNan(Out* out, std::int64_t count, const Segment& segment) {
  const std::int64_t nans = count == 0 ? segment.cols : count;
  std::fill(out, out + nans, Constants<Out>::kNan);
  FillMasked(out, nans, segment);
}

// Writes elements [i, end) of a row without NaN, as far as whole vectors go, and returns where that is.
template <bool kStreams, class Step, typename Out>
HWY_INLINE std::int64_t WriteVecs(const Step& step, std::int64_t i, std::int64_t end, Out* out) {
  using E = typename Step::Element;
  constexpr std::int64_t kL = kLanes<E>;
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (std::is_same_v<E, float> && std::is_same_v<Out, BFloat>) {
    const hn::ScalableTag<std::uint16_t> d16;
    for (; i + 2 * kL <= end; i += 2 * kL) {
      const auto bits = RoundTwo(step.Whole(i), step.Whole(i + kL));
      if constexpr (kStreams) {
        hn::Stream(bits, d16, &out[i].bits);
      } else {
        hn::StoreU(bits, d16, &out[i].bits);
      }
    }
  }
#endif
  for (; i + kL <= end; i += kL) {
    if constexpr (kStreams) {
      StreamVec<E>(step.Whole(i), out + i);
    } else {
      StoreVec<E>(step.Whole(i), out + i);
    }
  }
  return i;
}

// Writes a row without NaN. With `streams` whole cache lines go past the cache, for outputs that it cannot hold.
template <class Step, typename Out>
HWY_NOINLINE void WriteRow(const Step& given, std::int64_t count, bool streams, Out* out) {
  const Step step = given;  // which no store to the output can change, so that it stays in registers
  using E = typename Step::Element;
  constexpr std::int64_t kL = kLanes<E>;
  constexpr std::int64_t kLine = 64 / sizeof(Out);
  std::int64_t i = 0;
  if (HWY_UNLIKELY(streams)) {
    const std::int64_t head = std::min(count, ElementsToLine(out));
    for (; i < head; i += std::min(kL, head - i)) {
      const std::int64_t some = std::min(kL, head - i);
      StorePartialVec<E>(step.Some(i, some), out + i, some);
    }
    i = WriteVecs<true>(step, i, i + (count - i) / kLine * kLine, out);
  }
  i = WriteVecs<false>(step, i, count, out);
  if (i < count) {
    StorePartialVec<E>(step.Some(i, count - i), out + i, count - i);
  }
}

// Hands the last step of a row of log-softmax to `write`.
template <typename T, typename Out, class Write>
HWY_INLINE void WithLogStep(const T* in, T max, double scale, Sum log_sum, Write write) {
  if constexpr (sizeof(T) == 4 && sizeof(Out) == 2) {
    if (LogsInFloats<T, Out>(scale)) {
      const Tag<float> d;
      const auto log = hn::Set(d, static_cast<float>(log_sum.high));
      return write(FloatLogStep{in, hn::Set(d, max), log, hn::Set(d, static_cast<float>(scale))});
    }
  }
  const Tag<double> d;
  const auto part = hn::Set(d, kLogPart<T> * static_cast<double>(max));
  const LogRows row{part, hn::Set(d, log_sum.high), hn::Set(d, log_sum.low)};
  write(LogStep<T, Out>{in, row, hn::Set(d, scale / kLogPart<T>)});
}

// The elements that are worked on at a time where a row is not kept as a whole.
template <typename T>
constexpr std::int64_t kPiece = 8192 / sizeof(T);

// Calls visit(begin, count) for the pieces of a row; those behind the first begin at a cache line of the output.
template <typename T, typename Out, class Visit>
HWY_INLINE void ForPieces(std::int64_t count, const Out* out, Visit visit) {
  constexpr std::int64_t kLine = 64 / sizeof(Out);
  std::int64_t some = kPiece<T> - (kLine - ElementsToLine(out)) % kLine;
  for (std::int64_t i = 0; i < count; i += some, some = kPiece<T>) {
    some = std::min(some, count - i);
    visit(i, some);
  }
}

template <typename T, typename In, typename Out>
HWY_NOINLINE void LogRow(const In* in, std::int64_t count, T max, double scale, Sum log_sum, bool streams, Out* out) {
  if constexpr (std::is_same_v<T, In>) {
    WithLogStep<T, Out>(in, max, scale, log_sum,
                        [&](const auto& step) HWY_ATTR { WriteRow(step, count, streams, out); });
  } else {
    HWY_ALIGN T piece[kPiece<T>];
    ForPieces<T>(count, out, [&](std::int64_t begin, std::int64_t some) HWY_ATTR {
      WidenRow(in + begin, some, piece);
      LogRow<T>(piece, some, max, scale, log_sum, streams, out + begin);
    });
  }
}

// The last step of a row of softmax whose exponentials are not kept: they are computed a second time.
template <typename T, typename In, typename Out>
HWY_NOINLINE void ExpRow(const In* in, std::int64_t count, T max, const AnyFactor<T>& factor, T inverse, bool streams,
                         Out* out) {
  HWY_ALIGN T piece[kPiece<T>];
  ForPieces<T>(count, out, [&](std::int64_t begin, std::int64_t some) HWY_ATTR {
    SumOfRow<T, In>(in + begin, some, nullptr, max, factor, piece);
    WriteRow(ScaleStep<T>{piece, hn::Set(Tag<T>(), inverse)}, some, streams, out + begin);
  });
}

// One row; false if it is NaN. `kept` has room for kMostKept exponentials.
template <typename T, typename In, typename Out>
HWY_INLINE bool SoftmaxRow(const In* in, std::int64_t count, T max, const AnyFactor<T>& factor, T* kept, bool streams,
                           Maxima<T, In>& maxima, Out* out) {
  const In* const next = NextRow(in, count);
  const bool is_kept = count <= kMostKept<T>;
  T* exps = is_kept ? kept : nullptr;
  // Exponentials are kept beside the output where that cannot hold them or is better written once.
  if constexpr (std::is_same_v<T, Out>) {
    if (!streams || !is_kept) {
      exps = out;
      streams = false;
    }
  }
  const Sum total = SumOfRow<T, In>(in, count, next, max, factor, exps);
  maxima.LookAhead();
  const T inverse = InverseOfBiased<T>(total);
  if (HWY_UNLIKELY(std::isnan(total.high))) {
    return false;
  }
  if (HWY_LIKELY(exps != nullptr)) {
    WriteRow(ScaleStep<T>{exps, hn::Set(Tag<T>(), inverse)}, count, streams, out);
  } else {
    ExpRow<T>(in, count, max, factor, inverse, streams, out);
  }
  return true;
}

template <typename T, typename In, typename Out>
HWY_INLINE bool LogSoftmaxRow(const In* in, std::int64_t count, T max, const AnyFactor<T>& factor, double scale,
                              bool streams, Maxima<T, In>& maxima, Out* out) {
  const Sum log_sum = LogOfBiased<T>(SumOfRow<T, In>(in, count, NextRow(in, count), max, factor, nullptr));
  maxima.LookAhead();
  if (HWY_UNLIKELY(std::isnan(log_sum.high))) {
    return false;
  }
  LogRow<T>(in, count, max, scale, log_sum, streams, out);
  return true;
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
template <typename T, typename In, typename Out>
HWY_NOINLINE void RunLongRows(const Segment& segment, const AnyFactor<T>& factor, std::int64_t begin,
                              std::int64_t end) {
  HWY_ALIGN T kept[kMostKept<T>];
  const bool is_log = TraitsOf(segment.operation).is_log;
  const bool streams = Streams<Out>(segment);
  Maxima<T, In> maxima(segment, begin, end);
  for (std::int64_t row = begin; row < end; ++row) {
    const auto [in, count] = InputOf<In>(segment, row);
    Out* out = static_cast<Out*>(segment.output) + row * segment.output_stride;
    if (streams) {
      __builtin_prefetch(out + count, 1);  // the line that this row shares with the next is not streamed
    }
    const T max = maxima.Take();
    const bool has_values =
        std::isfinite(max) && (is_log ? LogSoftmaxRow(in, count, max, factor, segment.scale, streams, maxima, out)
                                      : SoftmaxRow(in, count, max, factor, kept, streams, maxima, out));
    if (HWY_UNLIKELY(!has_values)) {
      FillNan(out, count, segment);
    } else if (HWY_UNLIKELY(count < segment.cols)) {
      FillMasked(out, count, segment);
    }
  }
  if (streams) {
    hwy::FlushStream();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
