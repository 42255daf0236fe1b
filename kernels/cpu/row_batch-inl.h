// A batch of short rows on its way through memory, and its last step, once per Highway target.
#if defined(SOFTMAX_KERNELS_CPU_ROW_BATCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_ROW_BATCH_INL_H_
#undef SOFTMAX_KERNELS_CPU_ROW_BATCH_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_ROW_BATCH_INL_H_
#endif

#include <algorithm>
#include <cmath>

#include "kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// Where every load is checked, code for each size of rows takes a compiler minutes: there is one for all, and none for
// the largest.
#undef SOFTMAX_HAS_EACH_SIZE
#undef SOFTMAX_INLINE_EACH_SIZE
#ifdef __SANITIZE_ADDRESS__
#define SOFTMAX_HAS_EACH_SIZE 0
#define SOFTMAX_INLINE_EACH_SIZE HWY_NOINLINE
#else
#define SOFTMAX_HAS_EACH_SIZE 1
#define SOFTMAX_INLINE_EACH_SIZE HWY_INLINE
#endif

#if HWY_TARGET != HWY_SCALAR

// Exponentials that a batch keeps.
template <typename T>
constexpr std::int64_t kBatchKept = 16384 / sizeof(T);

// Inputs that are near enough for fetching ahead to cost more than it saves: of rows of any size, and of wide ones.
constexpr std::int64_t kNearBytes = 768 << 10;
constexpr std::int64_t kNearBytesOfWide = 2 << 20;

// Lines [first, end) of a row are brought into the cache.
template <typename In>
HWY_INLINE void FetchLines(const In* row, int first, int end) {
  for (int line = first; line < end; ++line) {
    hwy::Prefetch(row + line * (64 / static_cast<int>(sizeof(In))));
  }
}

// Lines of a row; one where it is less.
template <typename In>
HWY_INLINE int LinesOf(std::int64_t cols) {
  return static_cast<int>(std::max<std::int64_t>(1, cols * static_cast<std::int64_t>(sizeof(In)) / 64));
}

constexpr int kMostRows = 64;

// A batch of rows on the way through. The exponentials of row r begin at r * pitch.
template <typename T>
struct RowBatch {
  HWY_ALIGN T exps[kBatchKept<T>];
  std::int64_t counts[kMostRows];
  HWY_ALIGN T max[kMostRows];
  HWY_ALIGN double highs[kMostRows];  // of the totals, and of their logarithms after TakeLogs()
  HWY_ALIGN double lows[kMostRows];
  HWY_ALIGN T inverses[kMostRows];  // one by them

  Sum Total(int row) const { return {highs[row], sizeof(T) == 8 ? lows[row] : 0.0}; }
  void SetTotal(int row, Sum total) {
    highs[row] = total.high;
    lows[row] = total.low;
  }
};

template <typename T, typename Out>
HWY_INLINE void ScaleShortRow(const ScaleStep<T>& step, std::int64_t count, bool streams, Out* out) {
  constexpr std::int64_t kL = kLanes<T>;
  if (HWY_UNLIKELY(streams)) {
    return WriteRowBy<true>(step, count, out);
  }
  std::int64_t c = 0;
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Out, BFloat>) {
    c = WritePairs<false>(step, 0, count, out);
  }
#endif
  for (; c < count; c += kL) {
    StoreSomeVec<T>(hn::Mul(hn::Load(Tag<T>(), step.kept + c), step.inverse), out + c, count - c);
  }
}

// The last step of a row of `count` elements, vectors without a rest.
template <bool kStreams, class Step, typename Out>
HWY_INLINE void WriteWholeRow(const Step& step, std::int64_t count, Out* out) {
  using E = typename Step::Element;
  std::int64_t i = 0;
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (std::is_same_v<E, float> && std::is_same_v<Out, BFloat>) {
    i = WritePairs<kStreams>(step, 0, count, out);
  }
#endif
  for (; i < count; i += kLanes<E>) {
    if constexpr (kStreams) {
      StreamVec<E>(step.Whole(i), out + i);
    } else {
      StoreVec<E>(step.Whole(i), out + i);
    }
  }
}

// The same of row r of a batch, which is no NaN.
template <bool kStreams, typename T, typename In, typename Out>
HWY_INLINE void FinishWholeRow(const Segment& segment, const RowBatch<T>& batch, int r, std::int64_t count,
                               const In* in, Out* out) {
  if (segment.operation == Operation::kSoftmax) {
    const ScaleStep<T> step{batch.exps + r * count, hn::Set(Tag<T>(), batch.inverses[r])};
    WriteWholeRow<kStreams>(step, count, out);
  } else {
    WithLogStep<T, Out>(in, batch.max[r], segment.scale, batch.Total(r),
                        [&](const auto& step) HWY_ATTR { WriteWholeRow<kStreams>(step, count, out); });
  }
}

// The last step of one row.
template <typename T, typename In, typename Out>
HWY_INLINE void FinishRow(const Segment& segment, const RowBatch<T>& batch, int r, const T* HWY_RESTRICT exps,
                          const In* in, bool streams, Out* out) {
  const std::int64_t count = batch.counts[r];
  if (HWY_UNLIKELY(std::isnan(batch.highs[r]))) {
    return FillNan(out, count, segment);
  }
  const bool is_log = segment.operation == Operation::kLogSoftmax;
  if (is_log) {
    LogRow<T>(in, count, batch.max[r], segment.scale, batch.Total(r), streams, out);
  } else {
    ScaleShortRow(ScaleStep<T>{exps, hn::Set(Tag<T>(), batch.inverses[r])}, count, streams, out);
  }
  if (HWY_UNLIKELY(count < segment.cols)) {
    std::fill(out + count, out + segment.cols, is_log ? Constants<Out>::kNegativeInfinity : Constants<Out>::kZero);
  }
}

// The same of the rows of a batch, NaN or not; what is left of the rows `ahead` of them is fetched unless that is 0.
template <bool kStreams, typename T, typename In, typename Out>
SOFTMAX_INLINE_EACH_SIZE void FinishWholeRows(const Segment& segment, const RowBatch<T>& batch, int rows,
                                              std::int64_t count, const In* in, int ahead, Out* out) {
  const int lines = LinesOf<In>(count);
  const int fetched = segment.operation == Operation::kSoftmax ? lines / 2 : 0;
  for (int r = 0; r < rows; ++r) {
    const In* const from = in + r * segment.input_stride;
    Out* const to = out + r * segment.output_stride;
    if (ahead != 0) {
      FetchLines(from + ahead * segment.input_stride, fetched, lines);
    }
    if (HWY_UNLIKELY(std::isnan(batch.highs[r]))) {
      FillNan(to, count, segment);
    } else {
      FinishWholeRow<kStreams>(segment, batch, r, count, from, to);
    }
  }
}

// The sizes of batches.
struct Batches {
  int rows;
  int ahead;  // from a row to that which is fetched while it is worked on; 0: none
};

// How the rows of a segment are taken, of which a batch holds `most`. Beyond the near caches rows of softmax go a few
// at a time, so that memory is read all along, while exponentials are computed and while they are written. Not those of
// log-softmax: their logarithms go side by side, and they are read again for the last step. Sizes by measurement.
template <typename In>
Batches BatchesOf(const Segment& segment, std::int64_t near_bytes, bool is_plain, std::int64_t most) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(In));
  most = std::min<std::int64_t>(most, kMostRows);
  if (segment.outer * segment.input_stride <= near_bytes / kSize) {
    return {static_cast<int>(most), 0};
  }
  if (!is_plain) {
    return {static_cast<int>(most), static_cast<int>(most)};
  }
  const std::int64_t rows =
      std::clamp<std::int64_t>(4096 / kSize / segment.cols, std::min<std::int64_t>(16, most), most);
  return {static_cast<int>(rows), static_cast<int>(std::max(2 * rows, 12288 / kSize / segment.cols))};
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
