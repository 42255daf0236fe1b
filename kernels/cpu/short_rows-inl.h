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
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/lanes-inl.h"
#include "kernels/cpu/row_batch-inl.h"
#include "kernels/operations.h"

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

// The largest of each lane's elements of a row, which is left at `to` as T, with minus infinity after its `count`
// elements; whole rows of T are not.
template <typename T, int kVecs, bool kWhole, typename In>
HWY_INLINE VecOf<T> MaxOfShortRow(const In* in, std::int64_t count, T* HWY_RESTRICT to) {
  constexpr std::int64_t kL = kLanes<T>;
  auto largest = hn::Set(Tag<T>(), Constants<T>::kNegativeInfinity);
  if constexpr (kWhole) {
    HWY_UNROLL(16)
    for (int u = 0; u < kVecs; ++u) {
      const auto vec = LoadVec<T>(in + u * kL);
      if constexpr (!std::is_same_v<T, In>) {
        hn::Store(vec, Tag<T>(), to + u * kL);
      }
      largest = u == 0 ? vec : hn::Max(largest, vec);
    }
  } else {
    HWY_UNROLL(4)
    for (int u = 0; u < kVecs; ++u) {
      const auto vec = LoadSomeVec<T>(in + u * kL, count - u * kL);
      hn::Store(vec, Tag<T>(), to + u * kL);
      largest = hn::Max(largest, vec);
    }
  }
  return largest;
}

// The largest elements of as many rows as a vector has lanes; rows from `end` on are not there.
template <typename T, int kVecs, bool kWhole, typename In>
HWY_INLINE void FindMaxima(const In* in, std::int64_t stride, int first, int end, RowBatch<T>& batch) {
  constexpr std::int64_t kPitch = std::int64_t{kVecs} * kLanes<T>;
  VecOf<T> largest[kLanes<T>];
  const auto find = [&](int r) HWY_ATTR {
    const int row = first + r;
    largest[r] = kWhole || row < end
                     ? MaxOfShortRow<T, kVecs, kWhole>(in + row * stride, batch.counts[row], batch.kept + row * kPitch)
                     : hn::Zero(Tag<T>());
  };
  if constexpr (kWhole || (kVecs == 1 && std::is_same_v<T, In>)) {
    HWY_UNROLL(16)
    for (int r = 0; r < kLanes<T>; ++r) {
      find(r);
    }
  } else {
    for (int r = 0; r < kLanes<T>; ++r) {
      find(r);
    }
  }
  hn::Store(LargestLanes<T>(largest), Tag<T>(), batch.max + first);
}

// The exponentials of kRows rows of kVecs vectors each, which is as many vectors as go side by side.
template <typename T, int kVecs, int kRows, Grade kGrade>
HWY_INLINE void ExpVecs(const T* in, std::int64_t stride, const Factor<T, kGrade>& factor, const T* HWY_RESTRICT max,
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

// The exponentials of a group of rows, which are left at `exps`, and their sums as far as vectors go.
template <typename T, int kVecs, Grade kGrade>
HWY_INLINE void ExpRowGroup(const T* in, std::int64_t stride, const Factor<T, kGrade>& factor,
                            const T* HWY_RESTRICT max, T* exps, Level* HWY_RESTRICT levels) {
  constexpr int kGroup = kGroupRows<kVecs>;
  constexpr int kAtOnce = std::min(kVecs, kSideBySide);
  constexpr std::int64_t kL = kLanes<T>;
  VecOf<T> row[kGroup * kVecs];
  for (int at = 0; at < kVecs; at += kAtOnce) {
    VecOf<T> e[kGroup * kAtOnce];
    ExpVecs<T, kAtOnce, kGroup>(in + at * kL, stride, factor, max, e);
    HWY_UNROLL(8)
    for (int i = 0; i < kGroup * kAtOnce; ++i) {
      hn::Store(e[i], Tag<T>(), exps + (at + i) * kL);
      if constexpr (kAtOnce == kVecs) {
        row[i] = e[i];
      }
    }
  }
  if constexpr (kAtOnce != kVecs) {
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

// Rows whose largest elements are found before the first one's exponentials are computed: those that are still near
// when they are read again, a block at least.
template <typename T, int kVecs>
constexpr int kRowsAtOnce = kVecs <= 2 ? kMostRows : kBlockRows<T, kVecs>;

// Everything but the largest elements and the last step of rows [first, end), which begin at `in`.
template <typename T, int kVecs, Grade kGrade>
HWY_NOINLINE void ExpBlocks(const T* in, std::int64_t stride, const Fetch fetch, const Factor<T, kGrade>& factor,
                            bool keeps, int first, int end, RowBatch<T>& batch) {
  constexpr int kGroup = kGroupRows<kVecs>;
  constexpr int kRows = kBlockRows<T, kVecs>;
  constexpr std::int64_t kPitch = std::int64_t{kVecs} * kLanes<T>;
  T* exps = keeps ? batch.kept + first * kPitch : batch.unused;
  const std::int64_t exps_step = keeps ? kGroup * kPitch : 0;
  do {
    const int rows = std::min(kRows, end - first);
    Level levels[kRows];
    for (int r = rows; r < kRows; ++r) {
      levels[r] = {hn::Zero(Tag<double>()), hn::Zero(Tag<double>())};
    }
    for (int r = 0; r < rows; r += kGroup) {
      if (HWY_UNLIKELY(fetch.end != 0)) {
        for (int i = 0; i < kGroup; ++i) {
          fetch.Row(first + r + i);
        }
      }
      ExpRowGroup<T, kVecs>(in, stride, factor, batch.max + first + r, exps, levels + r);
      in += kGroup * stride;
      exps += exps_step;
    }
    for (int r = 0; r < rows; r += kLanes<double>) {
      StoreTotals<T>(levels + r, first + r, batch);
    }
    first += kRows;
  } while (kRowsAtOnce<T, kVecs> != kRows && first < end);
}

// Everything but the last step of the rows of a batch.
template <typename T, int kVecs, typename In>
HWY_NOINLINE void ExpRows(const In* in, std::int64_t stride, const Fetch& fetch, const AnyFactor<T>& factor,
                          bool is_whole, bool keeps, RowBatch<T>& batch) {
  constexpr int kGroup = kGroupRows<kVecs>;
  constexpr int kBlock = kBlockRows<T, kVecs>;
  // Rows that are missing from the last group count as empty.
  const int all = (batch.rows + kGroup - 1) / kGroup * kGroup;
  const int whole = is_whole ? batch.rows / kBlock * kBlock : 0;
  for (int first = 0, end = 0; first < all; first = end) {
    end = std::min(first + kRowsAtOnce<T, kVecs>, first < whole ? whole : all);
    BatchRows<T> rows{batch.kept + first * batch.pitch, batch.pitch};
    for (int r = first; r < end; r += kLanes<T>) {
      if (HWY_LIKELY(first < whole)) {
        FindMaxima<T, kVecs, true>(in, stride, r, end, batch);
      } else {
        FindMaxima<T, kVecs, false>(in, stride, r, end, batch);
      }
    }
    if constexpr (std::is_same_v<T, In>) {
      if (first < whole) {
        rows = {in + first * stride, stride};
      }
    }
    WithGrade(factor, [&](const auto& graded) HWY_ATTR {
      ExpBlocks<T, kVecs>(rows.first, rows.stride, fetch, graded, keeps, first, end, batch);
    });
  }
}

// Whether rows of more vectors than go side by side, but no more than a tile, are reduced side by side too: elsewhere
// there are too few registers for it to pay.
constexpr bool kHasWideBlocks = SOFTMAX_HAS_MASKED_SIXTEEN;

// The partial sums of a row of a tile or less as far as vectors go; NaN where its largest element says so.
template <typename T, Grade kGrade>
HWY_INLINE Level LevelOfTile(const T* in, std::int64_t count, const T* next, T max, const Factor<T, kGrade>& factor,
                             T* exps) {
  Level level = {hn::Set(Tag<double>(), std::numeric_limits<double>::quiet_NaN()), hn::Zero(Tag<double>())};
  if (HWY_LIKELY(std::isfinite(max))) {
    VecOf<T> partials[kPartialVecs<T>];
    AddPart<T>(in, count, next, hn::Set(Tag<T>(), max), factor, exps, partials);
    level = FoldToVec<false, T, kPartialVecs<T>>(partials, nullptr);
  }
  return level;
}

// ExpBlocks for rows of more vectors than go side by side. `next` is where the row that is fetched during the first
// one's work lies, or nullptr.
template <typename T, Grade kGrade>
HWY_NOINLINE void ExpWideBlock(const BatchRows<T>& rows, const T* next, const Factor<T, kGrade>& factor, bool keeps,
                               int first, RowBatch<T>& batch) {
  const Tag<double> d;
  VecOf<T> largest[kLanes<T>];
  Level levels[kLanes<T>];
  HWY_ALIGN T unused[kTile<T>];
  const int end = std::min(kLanes<T>, batch.rows - first);
  for (int r = 0; r < end; ++r) {
    largest[r] = MaxOfLanes<T>(rows.At(first + r), batch.counts[first + r]);
  }
  for (int r = end; r < kLanes<T>; ++r) {
    largest[r] = hn::Zero(Tag<T>());
    levels[r] = {hn::Zero(d), hn::Zero(d)};
  }
  hn::Store(LargestLanes<T>(largest), Tag<T>(), batch.max + first);
  for (int r = 0; r < end; ++r) {
    const int row = first + r;
    levels[r] = LevelOfTile<T>(rows.At(row), batch.counts[row], next == nullptr ? nullptr : next + row * rows.stride,
                               batch.max[row], factor, keeps ? batch.kept + row * batch.pitch : unused);
  }
  for (int r = 0; r < end; r += kLanes<double>) {
    StoreTotals<T>(levels + r, first + r, batch);
  }
}

// The same for one row.
template <typename T>
HWY_INLINE void ExpOneRow(const T* in, const T* next, const AnyFactor<T>& factor, bool keeps, int row,
                          RowBatch<T>& batch) {
  const std::int64_t count = batch.counts[row];
  const T max = MaxOfRow<T>(in, count);
  Sum total = {std::numeric_limits<double>::quiet_NaN(), 0};
  if (std::isfinite(max)) {
    total = SumOfRow<T, T>(in, count, next, max, factor, keeps ? batch.kept + row * batch.pitch : nullptr);
  }
  batch.max[row] = max;
  batch.SetTotal(row, total);
}

// Everything but the last step of the rows of a batch of rows of more vectors than go side by side. `ahead`: from a row
// to that which is fetched while it is worked on; 0: none.
template <typename T>
HWY_NOINLINE void ExpWideRows(const BatchRows<T>& rows, int ahead, const AnyFactor<T>& factor, bool keeps,
                              RowBatch<T>& batch) {
  const T* const next = ahead == 0 ? nullptr : rows.At(ahead);
  int r = 0;
  if constexpr (kHasWideBlocks) {
    // A block of fewer rows takes as long as one of all.
    for (; batch.pitch <= kTile<T> && r + kLanes<T> / 2 <= batch.rows; r += kLanes<T>) {
      WithGrade(factor, [&](const auto& graded) HWY_ATTR { ExpWideBlock<T>(rows, next, graded, keeps, r, batch); });
    }
  }
  const int one_by_one = r;
  for (; r < batch.rows; ++r) {
    ExpOneRow<T>(rows.At(r), ahead == 0 ? nullptr : rows.At(r) + batch.counts[r], factor, keeps, r, batch);
  }
  // Not at once, so that nothing waits for a division.
  for (r = one_by_one; r < batch.rows; ++r) {
    batch.inverses[r] = InverseOfBiased<T>(batch.Total(r));
  }
}

// The size in vectors that rows of `vecs` vectors are taken as; 0: more than go side by side.
inline int SizeInVecs(std::int64_t vecs) {
  constexpr int kMost = SOFTMAX_HAS_EACH_SIZE && !SOFTMAX_HAS_SCALEF ? 16 : 8;
  return vecs > kMost ? 0 : static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(vecs)));
}

// Calls run(size) for a size that is not 0.
template <class F>
HWY_INLINE void WithVecs(int vecs, F run) {
  switch (vecs) {
    case 1:
      return run(std::integral_constant<int, 1>());
    case 2:
      return run(std::integral_constant<int, 2>());
    case 4:
      return run(std::integral_constant<int, 4>());
    case 8:
      return run(std::integral_constant<int, 8>());
    default:
      return run(std::integral_constant < int, SOFTMAX_HAS_EACH_SIZE && !SOFTMAX_HAS_SCALEF ? 16 : 8 > ());
  }
}

// Rows [begin, end) of a segment with inner == 1 and cols <= kShort<T>.
template <typename T, typename In, typename Out>
HWY_NOINLINE void RunShortRows(const Segment& segment, const AnyFactor<T>& factor, std::int64_t begin,
                               std::int64_t end) {
  constexpr bool kIsT = std::is_same_v<T, In>;
  constexpr std::int64_t kL = kLanes<T>;
  constexpr auto kSize = static_cast<int>(sizeof(In));
  const std::int64_t all_vecs = (segment.cols + kL - 1) / kL;
  const int vecs = SizeInVecs(all_vecs);
  const bool keeps = !TraitsOf(segment.operation).is_log;
  const bool streams = Streams<Out>(segment);
  const bool is_whole = segment.lengths == nullptr && segment.cols == vecs * kL;
  RowBatch<T> batch;
  batch.pitch = (vecs == 0 ? all_vecs : vecs) * kL;
  const auto [most, ahead] =
      BatchesOf<In>(segment, vecs == 0 ? kNearBytesOfWide : kNearBytes, keeps && is_whole, kBatchKept<T> / batch.pitch);
  // Lines of rows ahead are fetched while exponentials are computed, and the rest when they are written.
  const bool fetches_wide = kIsT && vecs == 0 && kHasWideBlocks && batch.pitch <= kTile<T> && keeps && ahead != 0;
  const int lines = static_cast<int>((segment.cols * kSize + 63) / 64);
  const int first_lines = fetches_wide        ? static_cast<int>(segment.cols / kStep<T> * kStep<T>) * kSize / 64
                          : is_whole && keeps ? lines / 2
                                              : 0;
  for (std::int64_t row = begin; row < end; row += most) {
    const In* const in = static_cast<const In*>(segment.input) + row * segment.input_stride;
    Out* const out = static_cast<Out*>(segment.output) + row * segment.output_stride;
    batch.rows = static_cast<int>(std::min<std::int64_t>(most, end - row));
    for (int r = 0; r < most; ++r) {
      batch.counts[r] = r >= batch.rows ? 0 : segment.lengths == nullptr ? segment.cols : segment.lengths[row + r];
    }
    Fetch fetch;
    if (ahead != 0) {
      fetch = {reinterpret_cast<const char*>(in + ahead * segment.input_stride), segment.input_stride * kSize, 0,
               vecs == 0 ? 0 : first_lines};
    }
    BatchRows<T> given{batch.kept, batch.pitch};
    if constexpr (kIsT) {
      if (vecs == 0 || is_whole) {
        given = {in, segment.input_stride};
      }
    }
    if (vecs == 0) {
      for (int r = 0; !kIsT && r < batch.rows; ++r) {
        WidenRow(in + r * segment.input_stride, batch.counts[r], batch.kept + r * batch.pitch);
      }
      ExpWideRows<T>(given, !kIsT ? 0 : fetches_wide ? ahead : 1, factor, keeps, batch);
    } else {
      WithVecs(vecs, [&](auto size) HWY_ATTR {
        ExpRows<T, decltype(size)::value>(in, segment.input_stride, fetch, factor, is_whole, keeps, batch);
      });
    }
    if (!keeps) {
      TakeLogs<T>(batch.rows, batch.highs, batch.lows);
    }
    if (ahead != 0) {
      fetch.begin = first_lines;
      fetch.end = lines;
    }
    if (is_whole) {
      WithVecs(vecs, [&](auto size) HWY_ATTR {
        WriteWholeRows<T, decltype(size)::value>(segment, batch, given, fetch, streams, out);
      });
    } else {
      WriteRows<T>(segment, batch, given, fetch, streams, out);
    }
  }
  if (streams) {
    hwy::FlushStream();
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
