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

#if HWY_TARGET != HWY_SCALAR

// Exponentials that a batch keeps.
template <typename T>
constexpr std::int64_t kBatchKept = 16384 / sizeof(T);

// Inputs that are near enough for fetching ahead to cost more than it saves: of rows of any size, and of wide ones.
constexpr std::int64_t kNearBytes = 768 << 10;
constexpr std::int64_t kNearBytesOfWide = 2 << 20;

// Lines [kFrom, kTo) of a row are brought into the cache.
template <int kFrom, int kTo, typename In>
HWY_INLINE void FetchLines(const In* row) {
  HWY_UNROLL(8)
  for (int line = kFrom; line < kTo; ++line) {
    hwy::Prefetch(row + line * (64 / static_cast<int>(sizeof(In))));
  }
}
// Lines of a row of kVecs vectors; of more rows than one where it is less.
template <typename T, int kVecs, typename In>
constexpr int kRowLines = std::max<int>(1, sizeof(In) * kLanes<T> * kVecs / 64);

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

// The last step of a row of kCount elements, vectors without a rest.
template <int kCount, bool kStreams, class Step, typename Out>
HWY_INLINE void WriteWholeRow(const Step& step, Out* out) {
  using E = typename Step::Element;
  constexpr std::int64_t kL = kLanes<E>;
  std::int64_t i = 0;
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (std::is_same_v<E, float> && std::is_same_v<Out, BFloat>) {
    i = WritePairs<kStreams>(step, 0, kCount, out);
  }
#endif
  HWY_UNROLL(8)
  for (; i < kCount; i += kL) {
    if constexpr (kStreams) {
      StreamVec<E>(step.Whole(i), out + i);
    } else {
      StoreVec<E>(step.Whole(i), out + i);
    }
  }
}

// The last step of a row of kVecs vectors that is no NaN.
template <int kVecs, bool kStreams, typename T, typename In, typename Out>
HWY_INLINE void FinishWholeRow(const Segment& segment, const RowBatch<T>& batch, int r, const In* in, Out* out) {
  constexpr int kCount = kVecs * kLanes<T>;
  if (segment.operation == Operation::kSoftmax) {
    const ScaleStep<T> step{batch.exps + r * kCount, hn::Set(Tag<T>(), batch.inverses[r])};
    WriteWholeRow<kCount, kStreams>(step, out);
  } else {
    WithLogStep<T, Out>(in, batch.max[r], segment.scale, batch.Total(r),
                        [&](const auto& step) HWY_ATTR { WriteWholeRow<kCount, kStreams>(step, out); });
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

// The same for the rows of a batch, NaN or not; lines of the rows `ahead` of them are fetched unless that is 0.
template <int kVecs, bool kStreams, typename T, typename In, typename Out>
HWY_NOINLINE void FinishWholeRows(const Segment& segment, const RowBatch<T>& batch, int rows, const In* in, int ahead,
                                  Out* out) {
  constexpr int kLines = kRowLines<T, kVecs, In>;
  const bool is_log = segment.operation == Operation::kLogSoftmax;
  for (int r = 0; r < rows; ++r) {
    const In* const from = in + r * segment.input_stride;
    Out* const to = out + r * segment.output_stride;
    if (ahead != 0) {
      const In* const next = from + ahead * segment.input_stride;
      is_log ? FetchLines<0, kLines>(next) : FetchLines<kLines / 2, kLines>(next);
    }
    if (HWY_UNLIKELY(std::isnan(batch.highs[r]))) {
      FillNan(to, segment.cols, segment);
    } else {
      FinishWholeRow<kVecs, kStreams>(segment, batch, r, from, to);
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
