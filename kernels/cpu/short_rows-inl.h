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
#include "kernels/cpu/row_batch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// The partial sums of one row whose exponentials are kVecs vectors.
template <typename T, int kVecs>
struct ShortSums {
  static constexpr int kCount = std::min(kVecs, kPartialVecs<T>);
  VecOf<T> vecs[kCount];

  HWY_INLINE explicit ShortSums(const VecOf<T>* HWY_RESTRICT e) {
    HWY_UNROLL(16)
    for (int u = 0; u < kVecs; ++u) {
      vecs[u % kCount] = u < kCount ? e[u] : hn::Add(vecs[u % kCount], e[u]);
    }
  }
};

// Rows whose exponentials are computed side by side, at least a part of one.
template <int kVecs>
constexpr int kGroupRows = std::max(1, kSideBySide / kVecs);

// The elements of a row of kVecs vectors.
template <typename T, int kVecs, typename In>
HWY_INLINE void LoadRow(const In* from, VecOf<T>* HWY_RESTRICT vecs) {
  HWY_UNROLL(16)
  for (int u = 0; u < kVecs; ++u) {
    vecs[u] = LoadVec<T>(from + u * kLanes<T>);
  }
}

// The largest of each lane's elements of a whole row.
template <typename T, int kVecs, typename In>
HWY_INLINE VecOf<T> MaxOfWholeRow(const In* in) {
#if SOFTMAX_HAS_MASKED_SIXTEEN
  if constexpr (kVecs > 1 && std::is_same_v<In, BFloat>) {
    auto largest = MaxOfPair(in);
    HWY_UNROLL(4)
    for (int u = 2; u < kVecs; u += 2) {
      largest = hn::Max(largest, MaxOfPair(in + u * kLanes<T>));
    }
    return largest;
  }
#endif
  auto largest = LoadVec<T>(in);
  HWY_UNROLL(16)
  for (int u = 1; u < kVecs; ++u) {
    largest = hn::Max(largest, LoadVec<T>(in + u * kLanes<T>));
  }
  return largest;
}

// The same of `count` elements, which are left at `to` as a whole row.
template <typename T, int kVecs, typename In>
HWY_INLINE VecOf<T> MaxOfMadeWhole(const In* in, std::int64_t count, T* HWY_RESTRICT to) {
  constexpr std::int64_t kL = kLanes<T>;
  auto largest = hn::Set(Tag<T>(), Constants<T>::kNegativeInfinity);
  HWY_UNROLL(4)
  for (int u = 0; u < kVecs; ++u) {
    const auto vec = LoadSomeVec<T>(in + u * kL, count - u * kL);
    hn::Store(vec, Tag<T>(), to + u * kL);
    largest = hn::Max(largest, vec);
  }
  return largest;
}

// Either of a row of a batch; rows from `end` on are not there.
template <typename T, int kVecs, bool kWhole, typename In>
HWY_INLINE VecOf<T> MaxOfShortRow(const In* in, std::int64_t stride, int row, int end, RowBatch<T>& batch) {
  if constexpr (kWhole) {
    return MaxOfWholeRow<T, kVecs>(in + row * stride);
  } else if (row < end) {
    T* const to = batch.exps + row * kVecs * kLanes<T>;
    return MaxOfMadeWhole<T, kVecs>(in + row * stride, batch.counts[row], to);
  } else {
    return hn::Zero(Tag<T>());
  }
}

// The largest elements of as many rows as a vector has lanes. Rows that are not whole are left, made so, where their
// exponentials are to be.
template <typename T, int kVecs, bool kWhole, typename In>
HWY_INLINE void FindMaxima(const In* in, std::int64_t stride, int first, int end, RowBatch<T>& batch) {
  VecOf<T> largest[kLanes<T>];
  if constexpr (kWhole || kVecs == 1) {
    HWY_UNROLL(16)
    for (int r = 0; r < kLanes<T>; ++r) {
      largest[r] = MaxOfShortRow<T, kVecs, kWhole>(in, stride, first + r, end, batch);
    }
  } else {
    for (int r = 0; r < kLanes<T>; ++r) {
      largest[r] = MaxOfShortRow<T, kVecs, kWhole>(in, stride, first + r, end, batch);
    }
  }
  hn::Store(LargestLanes<T>(largest), Tag<T>(), batch.max + first);
}

// The exponentials of kRows rows of kVecs vectors each, which is as many vectors as go side by side.
template <typename T, int kVecs, int kRows, typename In, Grade kGrade>
HWY_INLINE void ExpVecs(const In* in, std::int64_t stride, const Factor<T, kGrade>& factor, const T* HWY_RESTRICT max,
                        VecOf<T> (&e)[kVecs * kRows]) {
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    LoadRow<T, kVecs>(in + r * stride, e + r * kVecs);
    const auto row_max = hn::Set(Tag<T>(), max[r]);
    HWY_UNROLL(8)
    for (int u = 0; u < kVecs; ++u) {
      e[r * kVecs + u] = hn::Sub(e[r * kVecs + u], row_max);
    }
  }
  BiasedExps<T>(e, factor);
}

// The exponentials of a group of rows, from row `first` on, and their sums as far as vectors go.
template <typename T, int kVecs, typename In, Grade kGrade>
HWY_INLINE void ExpRowGroup(const In* in, std::int64_t stride, const Factor<T, kGrade>& factor, int first,
                            RowBatch<T>& batch, Level* HWY_RESTRICT levels) {
  constexpr int kGroup = kGroupRows<kVecs>;
  constexpr int kStep = std::min(kVecs, kSideBySide);
  constexpr std::int64_t kL = kLanes<T>;
  const Tag<T> d;
  T* const exps = batch.exps + first * (kVecs * kL);
  VecOf<T> row[kGroup * kVecs];
  for (int at = 0; at < kVecs; at += kStep) {
    VecOf<T> e[kGroup * kStep];
    ExpVecs<T, kStep, kGroup>(in + at * kL, stride, factor, batch.max + first, e);
    HWY_UNROLL(8)
    for (int i = 0; i < kGroup * kStep; ++i) {
      hn::Store(e[i], d, exps + (at + i) * kL);
      if constexpr (kStep == kVecs) {
        row[i] = e[i];
      }
    }
  }
  if constexpr (kStep != kVecs) {
    LoadRow<T, kVecs>(exps, row);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kGroup; ++r) {
    const ShortSums<T, kVecs> partials(row + r * kVecs);
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
constexpr int kBlockRows = std::max(kLanes<T>, kGroupRows<kVecs>);

// Everything but the last step of a block of rows, as far as there are `rows`. A function of its own, as it is the same
// for every type of output.
template <typename T, int kVecs, bool kWhole, typename In, Grade kGrade>
HWY_NOINLINE void ExpBlock(const In* in, std::int64_t stride, int ahead, const Factor<T, kGrade>& factor, int first,
                           int rows, RowBatch<T>& batch) {
  constexpr int kGroup = kGroupRows<kVecs>;
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
    const int row = first + r;
    if constexpr (kWhole) {
      for (int i = 0; ahead != 0 && i < kGroup; ++i) {
        FetchLines(in + (row + i + ahead) * stride, 0, LinesOf<In>(kVecs * kLanes<T>) / 2);
      }
      ExpRowGroup<T, kVecs>(in + row * stride, stride, factor, row, batch, levels + r);
    } else {
      constexpr std::int64_t kPitch = kVecs * kLanes<T>;
      ExpRowGroup<T, kVecs>(batch.exps + row * kPitch, kPitch, factor, row, batch, levels + r);
    }
  }
  for (int r = 0; r < end; r += kLanes<double>) {
    StoreTotals<T>(levels + r, first + r, batch);
  }
}

// Everything but the last step of the rows of a batch.
template <typename T, int kVecs, typename In, Grade kGrade>
HWY_INLINE void ExpRows(const In* in, std::int64_t stride, int ahead, const Factor<T, kGrade>& factor, int rows,
                        bool is_whole, RowBatch<T>& batch) {
  for (int r = 0; r < rows; r += kBlockRows<T, kVecs>) {
    if (is_whole && r + kBlockRows<T, kVecs> <= rows) {
      ExpBlock<T, kVecs, true>(in, stride, ahead, factor, r, rows, batch);
    } else {
      ExpBlock<T, kVecs, false>(in, stride, ahead, factor, r, rows, batch);
    }
  }
}

// Whether rows of more vectors than go side by side, but no more than a tile, are reduced side by side too: elsewhere
// there are too few registers for it to pay.
constexpr bool kHasWideBlocks = SOFTMAX_HAS_MASKED_SIXTEEN;

// The partial sums of a row of a tile or less as far as vectors go; NaN where its largest element says so.
template <bool kKeep, typename T, typename In, Grade kGrade>
HWY_INLINE Level LevelOfTile(const In* in, std::int64_t count, const In* next, T max, const Factor<T, kGrade>& factor,
                             T* kept) {
  const Tag<T> d;
  VecOf<T> partials[kPartialVecs<T>];
  for (auto& partial : partials) {
    partial = hn::Zero(d);
  }
  AddPart<kKeep, T>(in, count, next, hn::Set(d, max), factor, kept, partials);
  Level level = FoldToVec<false, T, kPartialVecs<T>>(partials, nullptr);
  if (HWY_UNLIKELY(!std::isfinite(max))) {
    level.sums = hn::Set(Tag<double>(), std::numeric_limits<double>::quiet_NaN());
  }
  return level;
}

// ExpBlock for rows whose exponentials begin `pitch` apart.
template <typename T, bool kKeep, typename In, Grade kGrade>
HWY_NOINLINE void ExpWideBlock(const In* in, std::int64_t stride, int ahead, const Factor<T, kGrade>& factor, int first,
                               int rows, std::int64_t pitch, RowBatch<T>& batch) {
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
    levels[r] = LevelOfTile<kKeep, T>(in + row * stride, batch.counts[row], in + (row + ahead) * stride, batch.max[row],
                                      factor, kKeep ? batch.exps + row * pitch : nullptr);
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
HWY_INLINE void ExpWideRows(const In* in, std::int64_t stride, int ahead, const Factor<T, kGrade>& factor, int rows,
                            std::int64_t pitch, bool is_kept, RowBatch<T>& batch) {
  int r = 0;
  if constexpr (kHasWideBlocks) {
    // A block of fewer rows takes as long as one of all.
    for (; pitch <= kTile<T> && r + kLanes<T> / 2 <= rows; r += kLanes<T>) {
      is_kept ? ExpWideBlock<T, true>(in, stride, ahead, factor, r, rows, pitch, batch)
              : ExpWideBlock<T, false>(in, stride, ahead, factor, r, rows, pitch, batch);
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

// kVecs is the size of a row in vectors, or 0 for rows of more vectors than go side by side.
template <typename T, int kVecs, typename In, typename Out, Grade kGrade>
void RunBatches(const Segment& segment, const Factor<T, kGrade>& factor, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kL = kLanes<T>;
  constexpr std::int64_t kLine = 64 / sizeof(In);
  const std::int64_t pitch = kVecs == 0 ? (segment.cols + kL - 1) / kL * kL : kVecs * kL;
  const bool is_kept = segment.operation == Operation::kSoftmax;
  const bool streams = Streams<Out>(segment);
  const bool is_whole = segment.lengths == nullptr && segment.cols == kVecs * kL;
  const auto [most, ahead] =
      BatchesOf<In>(segment, kVecs == 0 ? kNearBytesOfWide : kNearBytes, is_kept && is_whole, kBatchKept<T> / pitch);
  // Columns of rows ahead that are fetched while exponentials are computed, not when they are written.
  const bool fetches_early = kVecs == 0 && kHasWideBlocks && pitch <= kTile<T> && is_kept && ahead != 0;
  const std::int64_t fetched = fetches_early ? segment.cols / kStep<T> * kStep<T> : 0;
  RowBatch<T> batch;
  for (std::int64_t row = begin; row < end; row += most) {
    const In* in = static_cast<const In*>(segment.input) + row * segment.input_stride;
    Out* out = static_cast<Out*>(segment.output) + row * segment.output_stride;
    const int rows = static_cast<int>(std::min<std::int64_t>(most, end - row));
    for (int r = 0; r < most; ++r) {
      batch.counts[r] = r >= rows ? 0 : segment.lengths == nullptr ? segment.cols : segment.lengths[row + r];
    }
    if constexpr (kVecs == 0) {
      ExpWideRows<T>(in, segment.input_stride, fetched != 0 ? ahead : 1, factor, rows, pitch, is_kept, batch);
    } else {
      ExpRows<T, kVecs>(in, segment.input_stride, is_kept ? ahead : 0, factor, rows, is_whole, batch);
    }
    if (!is_kept) {
      TakeLogs<T>(rows, batch.highs, batch.lows);
    }
    if constexpr (kVecs != 0) {
      if (is_whole) {
        streams ? FinishWholeRows<true>(segment, batch, rows, kVecs * kL, in, ahead, out)
                : FinishWholeRows<false>(segment, batch, rows, kVecs * kL, in, ahead, out);
        continue;
      }
    }
    for (int r = 0; r < rows; ++r) {
      // The next batch comes while this one is written.
      for (std::int64_t c = fetched; ahead != 0 && c < segment.cols; c += kLine) {
        hwy::Prefetch(in + (ahead + r) * segment.input_stride + c);
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
  } else if (vecs <= 8) {
    RunBatches<T, 8, In, Out>(segment, factor, begin, end);
  } else if (SOFTMAX_HAS_EACH_SIZE && !SOFTMAX_HAS_SCALEF && vecs <= 16) {
    RunBatches<T, SOFTMAX_HAS_EACH_SIZE ? 16 : 8, In, Out>(segment, factor, begin, end);
  } else {
    RunBatches<T, 0, In, Out>(segment, factor, begin, end);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
