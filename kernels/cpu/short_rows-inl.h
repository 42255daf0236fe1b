// Softmax of contiguous rows that are too short to hide their own latency, once per Highway target:
// batches of rows go through each step together, with the same arithmetic, element for element, as
// the long rows of rows-inl.h.
#if defined(SOFTMAX_KERNELS_CPU_SHORT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_SHORT_ROWS_INL_H_
#undef SOFTMAX_KERNELS_CPU_SHORT_ROWS_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_SHORT_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Exponentials that a batch keeps (16 KiB), and the widest rows that are short: eight to a batch.
template <typename T>
constexpr std::int64_t kBatchKept = 16384 / sizeof(T);
template <typename T>
constexpr std::int64_t kShort = kBatchKept<T> / 8;

// Inputs that the second-level cache may hold: fetching ahead only costs there.
constexpr std::int64_t kNearBytes = 2 << 20;

// A batch of rows on the way through. The exponentials of row r begin at r * pitch.
template <typename T>
struct RowBatch {
  static constexpr int kMostRows = 64;
  HWY_ALIGN T exps[kBatchKept<T>];
  std::int64_t counts[kMostRows];
  T max[kMostRows];
  Sum totals[kMostRows];
};

// The total of one row whose exponentials are kVecs vectors.
template <typename T, int kVecs>
HWY_INLINE Sum TotalOfShortRow(const VecOf<T>* HWY_RESTRICT e) {
  constexpr int kSums = std::min(kVecs, kPartialVecs<T>);
  VecOf<T> partials[kSums];
  HWY_UNROLL(8)
  for (int u = 0; u < kVecs; ++u) {
    partials[u % kSums] = u < kSums ? e[u] : hn::Add(partials[u % kSums], e[u]);
  }
  return TotalOfTile<T, kSums>(partials);
}

// The exponentials of as many rows, of kVecs vectors each, as go side by side, from row `first` on;
// rows beyond the batch count as empty.
template <typename T, int kVecs, typename In, Grade kGrade>
HWY_INLINE void ExpRowGroup(const In* in, std::int64_t stride, const Factor<T, kGrade>& factor, int first,
                            RowBatch<T>& batch) {
  constexpr int kGroup = kSideBySide / kVecs;
  constexpr std::int64_t kL = kLanes<T>;
  const Tag<T> d;
  VecOf<T> e[kSideBySide];
  HWY_UNROLL(8)
  for (int r = 0; r < kGroup; ++r) {
    const In* from = in + (first + r) * stride;
    const std::int64_t count = batch.counts[first + r];
    VecOf<T>* row = e + r * kVecs;
    HWY_UNROLL(8)
    for (int u = 0; u < kVecs; ++u) {
      row[u] = LoadSomeVec<T>(from + u * kL, count - u * kL);
    }
    auto largest = row[0];
    HWY_UNROLL(8)
    for (int u = 1; u < kVecs; ++u) {
      largest = hn::Max(largest, row[u]);
    }
    largest = LargestLane<T>(largest);
    batch.max[first + r] = hn::GetLane(largest);
    HWY_UNROLL(8)
    for (int u = 0; u < kVecs; ++u) {
      row[u] = hn::Sub(row[u], largest);
    }
  }
  BiasedExps<T>(e, factor);
  HWY_UNROLL(8)
  for (int i = 0; i < kSideBySide; ++i) {
    hn::Store(e[i], d, batch.exps + (first * kVecs + i) * kL);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kGroup; ++r) {
    batch.totals[first + r] = TotalOfShortRow<T, kVecs>(e + r * kVecs);
  }
}

// The same for one row that takes more vectors than that.
template <typename T, typename In, Grade kGrade>
HWY_INLINE void ExpOneRow(const In* in, const Factor<T, kGrade>& factor, bool is_kept, std::int64_t count, T* exps,
                          T& max, Sum& total) {
  max = MaxOfRow<T>(in, count);
  if (!std::isfinite(max)) {
    total.high = std::numeric_limits<double>::quiet_NaN();
  } else if (is_kept) {
    total = SumOfRow<true, T>(in, count, max, factor, exps);
  } else {
    total = SumOfRow<false, T, In>(in, count, max, factor, nullptr);
  }
}

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

// The last step of one row.
template <typename T, typename In, typename Out>
HWY_INLINE void FinishRow(const Segment& segment, const RowBatch<T>& batch, int r, const T* HWY_RESTRICT exps,
                          const In* in, bool streams, Out* out) {
  const Sum total = batch.totals[r];
  const std::int64_t count = batch.counts[r];
  if (HWY_UNLIKELY(std::isnan(total.high))) {
    return FillNan(out, count, segment);
  }
  const bool is_log = segment.operation == Operation::kLogSoftmax;
  if (is_log) {
    LogRow<T>(in, count, batch.max[r], segment.scale, LogOfBiased<T>(total), streams, out);
  } else {
    ScaleShortRow(ScaleStep<T>{exps, hn::Set(Tag<T>(), InverseOfBiased<T>(total))}, count, streams, out);
  }
  if (HWY_UNLIKELY(count < segment.cols)) {
    std::fill(out + count, out + segment.cols, is_log ? Constants<Out>::kNegativeInfinity : Constants<Out>::kZero);
  }
}

// kVecs is the size of a row in vectors, or 0 for rows of more vectors than go side by side.
template <typename T, int kVecs, typename In, typename Out, Grade kGrade>
void RunBatches(const Segment& segment, const Factor<T, kGrade>& factor, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kL = kLanes<T>;
  constexpr int kGroup = kVecs == 0 ? 1 : kSideBySide / kVecs;
  constexpr std::int64_t kLine = 64 / sizeof(In);
  const std::int64_t pitch = kVecs == 0 ? (segment.cols + kL - 1) / kL * kL : kVecs * kL;
  const auto most = static_cast<int>(std::min<std::int64_t>(kBatchKept<T> / pitch, RowBatch<T>::kMostRows));
  const bool is_kept = segment.operation == Operation::kSoftmax;
  const bool streams = Streams<Out>(segment);
  const bool is_far = segment.outer * segment.input_stride > kNearBytes / static_cast<std::int64_t>(sizeof(In));
  RowBatch<T> batch;
  for (std::int64_t row = begin; row < end; row += most) {
    const In* in = static_cast<const In*>(segment.input) + row * segment.input_stride;
    Out* out = static_cast<Out*>(segment.output) + row * segment.output_stride;
    const int rows = static_cast<int>(std::min<std::int64_t>(most, end - row));
    for (int r = 0; r < most; ++r) {
      batch.counts[r] = r >= rows ? 0 : segment.lengths == nullptr ? segment.cols : segment.lengths[row + r];
    }
    for (int r = 0; r < rows; r += kGroup) {
      if constexpr (kVecs == 0) {
        ExpOneRow<T>(in + r * segment.input_stride, factor, is_kept, batch.counts[r], batch.exps + r * pitch,
                     batch.max[r], batch.totals[r]);
      } else {
        ExpRowGroup<T, kVecs>(in, segment.input_stride, factor, r, batch);
      }
    }
    for (int r = 0; r < rows; ++r) {
      // The next batch comes while this one is written.
      for (std::int64_t c = 0; is_far && c < segment.cols; c += kLine) {
        hwy::Prefetch(in + (most + r) * segment.input_stride + c);
      }
      FinishRow(segment, batch, r, batch.exps + r * pitch, in + r * segment.input_stride, streams,
                out + r * segment.output_stride);
    }
  }
  if (streams) {
    hwy::FlushStream();
  }
}

// Rows [begin, end) of a segment with inner == 1 and cols <= kShort<T>.
template <typename T, typename In, typename Out, Grade kGrade>
void RunShortRows(const Segment& segment, const Factor<T, kGrade>& factor, std::int64_t begin, std::int64_t end) {
  const std::int64_t vecs = (segment.cols + kLanes<T> - 1) / kLanes<T>;
  if (vecs <= 1) {
    RunBatches<T, 1, In, Out>(segment, factor, begin, end);
  } else if (vecs <= 2) {
    RunBatches<T, 2, In, Out>(segment, factor, begin, end);
  } else if (vecs <= 4) {
    RunBatches<T, 4, In, Out>(segment, factor, begin, end);
  } else if (vecs <= kSideBySide) {
    RunBatches<T, kSideBySide, In, Out>(segment, factor, begin, end);
  } else {
    RunBatches<T, 0, In, Out>(segment, factor, begin, end);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
