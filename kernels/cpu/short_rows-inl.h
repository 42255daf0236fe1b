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

#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Exponentials that a batch keeps.
template <typename T>
constexpr std::int64_t kBatchKept = 8 * kShort<T>;

// Inputs that the second-level cache may hold: fetching ahead only costs there.
constexpr std::int64_t kNearBytes = 2 << 20;

// A batch of rows on the way through. The exponentials of row r begin at r * pitch.
template <typename T>
struct RowBatch {
  static constexpr int kMostRows = 64;
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

// The partial sums of one row whose exponentials are kVecs vectors.
template <typename T, int kVecs>
struct ShortSums {
  static constexpr int kCount = std::min(kVecs, kPartialVecs<T>);
  VecOf<T> vecs[kCount];

  HWY_INLINE explicit ShortSums(const VecOf<T>* HWY_RESTRICT e) {
    HWY_UNROLL(8)
    for (int u = 0; u < kVecs; ++u) {
      vecs[u % kCount] = u < kCount ? e[u] : hn::Add(vecs[u % kCount], e[u]);
    }
  }
};

// The elements of a row, kVecs vectors if it is whole.
template <typename T, int kVecs, bool kWhole, typename In>
HWY_INLINE void LoadRow(const In* from, std::int64_t count, VecOf<T>* HWY_RESTRICT vecs) {
  constexpr std::int64_t kL = kLanes<T>;
  HWY_UNROLL(8)
  for (int u = 0; u < kVecs; ++u) {
    vecs[u] = kWhole ? LoadVec<T>(from + u * kL) : LoadSomeVec<T>(from + u * kL, count - u * kL);
  }
}

// The largest elements of as many rows as a vector has lanes. Rows that are not whole are left, made so, where their
// exponentials are to be.
template <typename T, int kVecs, bool kWhole, typename In>
HWY_INLINE void FindMaxima(const In* in, std::int64_t stride, int first, int rows, RowBatch<T>& batch) {
  const Tag<T> d;
  VecOf<T> largest[kLanes<T>];
  HWY_UNROLL(16)
  for (int r = 0; r < kLanes<T>; ++r) {
    if (!kWhole && first + r >= rows) {
      largest[r] = hn::Zero(d);
      continue;
    }
    VecOf<T> row[kVecs];
    LoadRow<T, kVecs, kWhole>(in + (first + r) * stride, batch.counts[first + r], row);
    largest[r] = row[0];
    HWY_UNROLL(8)
    for (int u = 0; u < kVecs; ++u) {
      largest[r] = hn::Max(largest[r], row[u]);
      if constexpr (!kWhole) {
        hn::Store(row[u], d, batch.exps + ((first + r) * kVecs + u) * kLanes<T>);
      }
    }
  }
  hn::Store(LargestLanes<T>(largest), d, batch.max + first);
}

// The exponentials of as many rows as go side by side, from row `first` on, and their sums as far as vectors go.
template <typename T, int kVecs, bool kWhole, typename In, Grade kGrade>
HWY_INLINE void ExpRowGroup(const In* in, std::int64_t stride, const Factor<T, kGrade>& factor, int first,
                            RowBatch<T>& batch, Level* HWY_RESTRICT levels) {
  constexpr int kGroup = kSideBySide / kVecs;
  constexpr std::int64_t kPitch = kVecs * kLanes<T>;
  const Tag<T> d;
  VecOf<T> e[kSideBySide];
  HWY_UNROLL(8)
  for (int r = 0; r < kGroup; ++r) {
    if constexpr (kWhole) {
      LoadRow<T, kVecs, true>(in + (first + r) * stride, kPitch, e + r * kVecs);
    } else {
      LoadRow<T, kVecs, true>(batch.exps + (first + r) * kPitch, kPitch, e + r * kVecs);
    }
    const auto max = hn::Set(d, batch.max[first + r]);
    HWY_UNROLL(8)
    for (int u = 0; u < kVecs; ++u) {
      e[r * kVecs + u] = hn::Sub(e[r * kVecs + u], max);
    }
  }
  BiasedExps<T>(e, factor);
  HWY_UNROLL(8)
  for (int i = 0; i < kSideBySide; ++i) {
    hn::Store(e[i], d, batch.exps + (first * kVecs + i) * kLanes<T>);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kGroup; ++r) {
    const ShortSums<T, kVecs> partials(e + r * kVecs);
    levels[r] = FoldToVec<false, T, ShortSums<T, kVecs>::kCount>(partials.vecs, nullptr);
  }
}

// The totals of as many rows as a vector has doubles, and one divided by them.
template <typename T>
HWY_INLINE void StoreTotals(Level* HWY_RESTRICT levels, int first, RowBatch<T>& batch) {
  const Tag<double> d;
  const Level total = FoldLanes<T>(levels);
  const auto high = hn::Add(total.sums, total.rests);
  hn::Store(high, d, batch.highs + first);
  hn::Store(hn::Sub(total.rests, hn::Sub(high, total.sums)), d, batch.lows + first);
  const auto inverse = hn::Div(hn::Set(d, 1.0), high);
  if constexpr (sizeof(T) == 4) {
    hn::Store(Narrow(inverse), hn::Rebind<float, Tag<double>>(), batch.inverses + first);
  } else {
    hn::Store(inverse, d, batch.inverses + first);
  }
}

// Rows whose reductions are done side by side.
template <typename T, int kVecs>
constexpr int kBlockRows = std::max(kLanes<T>, kSideBySide / kVecs);

// Everything but the last step of a block of rows, as far as there are `rows`. A function of its own, as it is the same
// for every type of output.
template <typename T, int kVecs, bool kWhole, typename In, Grade kGrade>
HWY_NOINLINE void ExpBlock(const In* in, std::int64_t stride, const Factor<T, kGrade>& factor, int first, int rows,
                           RowBatch<T>& batch) {
  constexpr int kGroup = kSideBySide / kVecs;
  constexpr int kRows = kBlockRows<T, kVecs>;
  // Rows that are missing from the last group count as empty.
  const int end = kWhole ? kRows : std::min(kRows, (rows - first + kGroup - 1) / kGroup * kGroup);
  Level levels[kRows];
  for (int r = end; r < kRows; ++r) {
    levels[r] = {hn::Zero(Tag<double>()), hn::Zero(Tag<double>())};
  }
  for (int r = 0; r < end; r += kLanes<T>) {
    FindMaxima<T, kVecs, kWhole>(in, stride, first + r, first + end, batch);
  }
  for (int r = 0; r < end; r += kGroup) {
    ExpRowGroup<T, kVecs, kWhole>(in, stride, factor, first + r, batch, levels + r);
  }
  for (int r = 0; r < end; r += kLanes<double>) {
    StoreTotals<T>(levels + r, first + r, batch);
  }
}

// Everything but the last step of the rows of a batch.
template <typename T, int kVecs, typename In, Grade kGrade>
HWY_INLINE void ExpRows(const In* in, std::int64_t stride, const Factor<T, kGrade>& factor, int rows, bool is_whole,
                        RowBatch<T>& batch) {
  for (int r = 0; r < rows; r += kBlockRows<T, kVecs>) {
    if (is_whole && r + kBlockRows<T, kVecs> <= rows) {
      ExpBlock<T, kVecs, true>(in, stride, factor, r, rows, batch);
    } else {
      ExpBlock<T, kVecs, false>(in, stride, factor, r, rows, batch);
    }
  }
}

// Whether rows of more vectors than go side by side, but no more than a tile, are reduced side by side too: elsewhere
// there are too few registers for it to pay.
constexpr bool kHasWideBlocks = SOFTMAX_HAS_MASKED_SIXTEEN;

// The partial sums of a row of a tile or less as far as vectors go; NaN where its largest element says so.
template <bool kKeep, typename T, typename In, Grade kGrade>
HWY_INLINE Level LevelOfTile(const In* in, std::int64_t count, T max, const Factor<T, kGrade>& factor, T* kept) {
  const Tag<T> d;
  VecOf<T> partials[kPartialVecs<T>];
  for (auto& partial : partials) {
    partial = hn::Zero(d);
  }
  AddPart<kKeep, T>(in, count, in + count, hn::Set(d, max), factor, kept, partials);
  Level level = FoldToVec<false, T, kPartialVecs<T>>(partials, nullptr);
  if (HWY_UNLIKELY(!std::isfinite(max))) {
    level.sums = hn::Set(Tag<double>(), std::numeric_limits<double>::quiet_NaN());
  }
  return level;
}

// ExpBlock for rows whose exponentials begin `pitch` apart.
template <typename T, bool kKeep, typename In, Grade kGrade>
HWY_NOINLINE void ExpWideBlock(const In* in, std::int64_t stride, const Factor<T, kGrade>& factor, int first, int rows,
                               std::int64_t pitch, RowBatch<T>& batch) {
  const Tag<double> d;
  VecOf<T> largest[kLanes<T>];
  Level levels[kLanes<T>];
  const int end = std::min(kLanes<T>, rows - first);
  for (int r = 0; r < end; ++r) {
    largest[r] = MaxOfLanes<T>(in + (first + r) * stride, batch.counts[first + r]);
  }
  for (int r = end; r < kLanes<T>; ++r) {
    largest[r] = hn::Zero(Tag<T>());
    levels[r] = {hn::Zero(d), hn::Zero(d)};
  }
  hn::Store(LargestLanes<T>(largest), Tag<T>(), batch.max + first);
  for (int r = 0; r < end; ++r) {
    const int row = first + r;
    levels[r] = LevelOfTile<kKeep, T>(in + row * stride, batch.counts[row], batch.max[row], factor,
                                      kKeep ? batch.exps + row * pitch : nullptr);
  }
  for (int r = 0; r < end; r += kLanes<double>) {
    StoreTotals<T>(levels + r, first + r, batch);
  }
}

// The same for one row of more vectors than go side by side.
template <typename T, typename In, Grade kGrade>
HWY_INLINE void ExpOneRow(const In* in, const Factor<T, kGrade>& factor, bool is_kept, int row, T* exps,
                          RowBatch<T>& batch) {
  const std::int64_t count = batch.counts[row];
  const T max = MaxOfRow<T>(in, count);
  Sum total = {std::numeric_limits<double>::quiet_NaN(), 0};
  if (std::isfinite(max)) {
    total = is_kept ? SumOfRow<true, T>(in, count, max, factor, exps)
                    : SumOfRow<false, T, In>(in, count, max, factor, nullptr);
  }
  batch.max[row] = max;
  batch.SetTotal(row, total);
}

// Everything but the last step of the rows of a batch of rows of more vectors than go side by side.
template <typename T, typename In, Grade kGrade>
HWY_INLINE void ExpWideRows(const In* in, std::int64_t stride, const Factor<T, kGrade>& factor, int rows,
                            std::int64_t pitch, bool is_kept, RowBatch<T>& batch) {
  int r = 0;
  if constexpr (kHasWideBlocks) {
    // A block of fewer rows takes as long as one of all.
    for (; pitch <= kTile<T> && r + kLanes<T> / 2 <= rows; r += kLanes<T>) {
      is_kept ? ExpWideBlock<T, true>(in, stride, factor, r, rows, pitch, batch)
              : ExpWideBlock<T, false>(in, stride, factor, r, rows, pitch, batch);
    }
  }
  const int one_by_one = r;
  for (; r < rows; ++r) {
    ExpOneRow<T>(in + r * stride, factor, is_kept, r, batch.exps + r * pitch, batch);
  }
  // Not at once, so that nothing waits for a division.
  for (r = one_by_one; r < rows; ++r) {
    batch.inverses[r] = InverseOfBiased<T>(batch.Total(r));
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

// kVecs is the size of a row in vectors, or 0 for rows of more vectors than go side by side.
template <typename T, int kVecs, typename In, typename Out, Grade kGrade>
void RunBatches(const Segment& segment, const Factor<T, kGrade>& factor, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kL = kLanes<T>;
  constexpr std::int64_t kLine = 64 / sizeof(In);
  const std::int64_t pitch = kVecs == 0 ? (segment.cols + kL - 1) / kL * kL : kVecs * kL;
  const auto most = static_cast<int>(std::min<std::int64_t>(kBatchKept<T> / pitch, RowBatch<T>::kMostRows));
  const bool is_kept = segment.operation == Operation::kSoftmax;
  const bool streams = Streams<Out>(segment);
  const bool is_whole = segment.lengths == nullptr && segment.cols == kVecs * kL;
  const bool is_far = segment.outer * segment.input_stride > kNearBytes / static_cast<std::int64_t>(sizeof(In));
  RowBatch<T> batch;
  for (std::int64_t row = begin; row < end; row += most) {
    const In* in = static_cast<const In*>(segment.input) + row * segment.input_stride;
    Out* out = static_cast<Out*>(segment.output) + row * segment.output_stride;
    const int rows = static_cast<int>(std::min<std::int64_t>(most, end - row));
    for (int r = 0; r < most; ++r) {
      batch.counts[r] = r >= rows ? 0 : segment.lengths == nullptr ? segment.cols : segment.lengths[row + r];
    }
    if constexpr (kVecs == 0) {
      ExpWideRows<T>(in, segment.input_stride, factor, rows, pitch, is_kept, batch);
    } else {
      ExpRows<T, kVecs>(in, segment.input_stride, factor, rows, is_whole, batch);
    }
    if (!is_kept) {
      TakeLogs<T>(rows, batch.highs, batch.lows);
    }
    for (int r = 0; r < rows; ++r) {
      // The next batch comes while this one is written.
      for (std::int64_t c = 0; is_far && c < segment.cols; c += kLine) {
        hwy::Prefetch(in + (most + r) * segment.input_stride + c);
      }
      const In* from = in + r * segment.input_stride;
      Out* to = out + r * segment.output_stride;
      if constexpr (kVecs != 0) {
        if (is_whole && HWY_LIKELY(!std::isnan(batch.highs[r]))) {
          streams ? FinishWholeRow<kVecs, true>(segment, batch, r, from, to)
                  : FinishWholeRow<kVecs, false>(segment, batch, r, from, to);
          continue;
        }
      }
      FinishRow(segment, batch, r, batch.exps + r * pitch, from, streams, to);
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
