// Softmax of rows whose elements lie `inner` apart, once per Highway target: 16 neighbouring rows
// side by side in vectors, each with the same arithmetic, element for element, as rows-inl.h.
#if defined(SOFTMAX_KERNELS_CPU_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_COLUMNS_INL_H_
#undef SOFTMAX_KERNELS_CPU_COLUMNS_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/rows-inl.h"
#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr int kTileRows = 16;
template <typename T>
constexpr int kRowVecs = kTileRows / kLanes<T>;

// One tile of at most 16 rows: `in` and `out` point at its first row's first element.
template <typename In, typename Out>
struct RowTile {
  const In* in;
  Out* out;
  std::int64_t cols;
  std::int64_t inner;
  int rows;
  bool has_lengths;
  std::int64_t lengths[kTileRows];
  std::int64_t longest;
};

// The 16 rows' elements of one column; minus infinity for those beyond their row's length.
template <typename T>
struct Column {
  VecOf<T> vecs[kRowVecs<T>];
};

template <typename T, typename In, typename Out>
HWY_INLINE Column<T> LoadColumn(const RowTile<In, Out>& tile, std::int64_t c) {
  const In* from = tile.in + c * tile.inner;
  In chosen[kTileRows];
  if (HWY_UNLIKELY(tile.has_lengths)) {
    for (int i = 0; i < kTileRows; ++i) {
      const bool is_there = i < tile.rows && c < tile.lengths[i];
      chosen[i] = is_there ? from[i] : Constants<In>::kNegativeInfinity;
    }
    from = chosen;
  }
  const int rows = tile.has_lengths ? kTileRows : tile.rows;
  Column<T> column;
  for (int u = 0; u < kRowVecs<T>; ++u) {
    const int left = rows - u * kLanes<T>;
    if (HWY_LIKELY(left >= kLanes<T>)) {
      column.vecs[u] = LoadVec<T>(from + u * kLanes<T>);
    } else if (left > 0) {
      column.vecs[u] = LoadPartialVec<T>(from + u * kLanes<T>, left);
    } else {
      column.vecs[u] = hn::Set(Tag<T>(), Constants<T>::kNegativeInfinity);
    }
  }
  return column;
}

template <typename T, typename In, typename Out>
HWY_INLINE void StoreColumn(const RowTile<In, Out>& tile, std::int64_t c, const Column<T>& column, Out masked) {
  Out* to = tile.out + c * tile.inner;
  if (HWY_LIKELY(!tile.has_lengths)) {
    for (int u = 0; u < kRowVecs<T>; ++u) {
      const int left = tile.rows - u * kLanes<T>;
      if (HWY_LIKELY(left >= kLanes<T>)) {
        StoreVec<T>(column.vecs[u], to + u * kLanes<T>);
      } else if (left > 0) {
        StorePartialVec<T>(column.vecs[u], to + u * kLanes<T>, left);
      }
    }
    return;
  }
  Out whole[kTileRows];
  for (int u = 0; u < kRowVecs<T>; ++u) {
    StoreVec<T>(column.vecs[u], whole + u * kLanes<T>);
  }
  for (int i = 0; i < tile.rows; ++i) {
    to[i] = c < tile.lengths[i] ? whole[i] : masked;
  }
}

template <typename T, typename In, typename Out>
void MaxOfColumns(const RowTile<In, Out>& tile, T* HWY_RESTRICT max) {
  const Tag<T> d;
  Column<T> largest;
  for (auto& vec : largest.vecs) {
    vec = hn::Set(d, Constants<T>::kNegativeInfinity);
  }
  for (std::int64_t c = 0; c < tile.longest; ++c) {
    const Column<T> column = LoadColumn<T>(tile, c);
    for (int u = 0; u < kRowVecs<T>; ++u) {
      largest.vecs[u] = hn::Max(largest.vecs[u], column.vecs[u]);
    }
  }
  for (int u = 0; u < kRowVecs<T>; ++u) {
    hn::Store(largest.vecs[u], d, max + u * kLanes<T>);
  }
}

// The partial sums of 16 rows; partial sum p of row i is at p * 16 + i.
template <typename T>
struct ColumnSums {
  static constexpr int kCount = kPartials<T> * kTileRows;
  HWY_ALIGN T partials[2][kCount];  // of a tile's halves
  HWY_ALIGN T sums[kCount];
  HWY_ALIGN T rests[kCount];
};

template <typename T>
HWY_INLINE void CloseTile(ColumnSums<T>& state) {
  const Tag<T> d;
  for (int i = 0; i < ColumnSums<T>::kCount; i += kLanes<T>) {
    auto sum = hn::Load(d, state.sums + i);
    auto rest = hn::Load(d, state.rests + i);
    AddExactly(hn::Add(hn::Load(d, state.partials[0] + i), hn::Load(d, state.partials[1] + i)), sum, rest);
    hn::Store(sum, d, state.sums + i);
    hn::Store(rest, d, state.rests + i);
    hn::Store(hn::Zero(d), d, state.partials[0] + i);
    hn::Store(hn::Zero(d), d, state.partials[1] + i);
  }
}

// The totals of the rows of a tile.
struct RowTotals {
  HWY_ALIGN double highs[kTileRows];
  HWY_ALIGN double lows[kTileRows];
};

// The sums of the rows' exponentials; with kKeep those of column c are left in kept[c * 16].
template <bool kKeep, typename T, typename In, typename Out, Grade kGrade>
void SumOfColumns(const RowTile<In, Out>& tile, const T* HWY_RESTRICT max, const Factor<T, kGrade>& factor,
                  RowTotals& totals, T* HWY_RESTRICT kept) {
  const Tag<T> d;
  ColumnSums<T> state;
  std::memset(&state, 0, sizeof(state));
  for (std::int64_t c = 0; c < tile.longest; ++c) {
    if (c != 0 && c % kTile<T> == 0) {
      CloseTile(state);
    }
    const Column<T> column = LoadColumn<T>(tile, c);
    T* partial = state.partials[c / kHalfTile<T> % 2] + c % kPartials<T> * kTileRows;
    for (int u = 0; u < kRowVecs<T>; ++u) {
      T* at = partial + u * kLanes<T>;
      VecOf<T> e[] = {hn::Sub(column.vecs[u], hn::Load(d, max + u * kLanes<T>))};
      BiasedExps<T>(e, factor);
      hn::Store(hn::Add(hn::Load(d, at), e[0]), d, at);
      if constexpr (kKeep) {
        hn::Store(e[0], d, kept + c * kTileRows + u * kLanes<T>);
      }
    }
  }
  CloseTile(state);
  for (int i = 0; i < kTileRows; i += kLanes<double>) {
    StoreTotalsOfRows(state.sums + i, state.rests + i, kTileRows, totals.highs + i, totals.lows + i);
  }
}

template <typename T, typename In, typename Out, Grade kGrade>
void ExpColumns(const RowTile<In, Out>& tile, const T* HWY_RESTRICT max, const Factor<T, kGrade>& factor,
                const T* HWY_RESTRICT inverse) {
  const Tag<T> d;
  for (std::int64_t c = 0; c < tile.cols; ++c) {
    Column<T> column = LoadColumn<T>(tile, c);
    for (int u = 0; u < kRowVecs<T>; ++u) {
      VecOf<T> e[] = {hn::Sub(column.vecs[u], hn::Load(d, max + u * kLanes<T>))};
      BiasedExps<T>(e, factor);
      column.vecs[u] = hn::Mul(e[0], hn::Load(d, inverse + u * kLanes<T>));
    }
    StoreColumn<T>(tile, c, column, Constants<Out>::kZero);
  }
}

// The same with exponentials that were kept.
template <typename T, typename In, typename Out>
void ScaleColumns(const RowTile<In, Out>& tile, const T* HWY_RESTRICT kept, const T* HWY_RESTRICT inverse) {
  const Tag<T> d;
  for (std::int64_t c = 0; c < tile.cols; ++c) {
    Column<T> column;
    for (int u = 0; u < kRowVecs<T>; ++u) {
      // Beyond the longest row only rows that are NaN are not masked.
      const auto e = c < tile.longest ? hn::Load(d, kept + c * kTileRows + u * kLanes<T>) : hn::Zero(d);
      column.vecs[u] = hn::Mul(e, hn::Load(d, inverse + u * kLanes<T>));
    }
    StoreColumn<T>(tile, c, column, Constants<Out>::kZero);
  }
}

// What log-softmax knows of each row of a tile.
struct RowLogs {
  HWY_ALIGN double max[kTileRows];  // times kLogPart
  HWY_ALIGN double log_high[kTileRows];
  HWY_ALIGN double log_low[kTileRows];

  LogRows From(int row) const {
    const Tag<double> d;
    return {hn::Load(d, max + row), hn::Load(d, log_high + row), hn::Load(d, log_low + row)};
  }
};

template <typename T, typename In, typename Out>
void LogColumns(const RowTile<In, Out>& tile, const RowLogs& logs, double scale) {
  using E = LogElement<T, Out>;
  const auto by = hn::Set(Tag<double>(), scale / kLogPart<T>);
  for (std::int64_t c = 0; c < tile.cols; ++c) {
    Column<E> column = LoadColumn<E>(tile, c);
    for (int u = 0; u < kRowVecs<E>; ++u) {
      const int lower = u * kLanes<E>;
      const int upper = lower + kLanes<E> - kLanes<double>;
      column.vecs[u] = LogsOf<T>(column.vecs[u], logs.From(lower), logs.From(upper), by);
    }
    StoreColumn<E>(tile, c, column, Constants<Out>::kNegativeInfinity);
  }
}

template <typename In, typename Out>
void FloatLogColumns(const RowTile<In, Out>& tile, const float* HWY_RESTRICT max, const RowLogs& logs, double scale) {
  const Tag<float> d;
  HWY_ALIGN float log_sums[kTileRows];
  for (int i = 0; i < kTileRows; ++i) {
    log_sums[i] = static_cast<float>(logs.log_high[i]);
  }
  const auto by = hn::Set(d, static_cast<float>(scale));
  for (std::int64_t c = 0; c < tile.cols; ++c) {
    Column<float> column = LoadColumn<float>(tile, c);
    for (int u = 0; u < kRowVecs<float>; ++u) {
      const int at = u * kLanes<float>;
      column.vecs[u] = FloatLogOf(column.vecs[u], hn::Load(d, max + at), hn::Load(d, log_sums + at), by);
    }
    StoreColumn<float>(tile, c, column, Constants<Out>::kNegativeInfinity);
  }
}

// `kept` has room for kMostKept<T> exponentials.
template <typename T, typename In, typename Out, Grade kGrade>
HWY_NOINLINE void RunTile(RowTile<In, Out>& tile, const Segment& segment, const Factor<T, kGrade>& factor,
                          T* HWY_RESTRICT kept) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  HWY_ALIGN T max[kTileRows];
  HWY_ALIGN T inverse[kTileRows] = {};
  RowLogs logs = {};
  RowTotals totals;
  MaxOfColumns<T>(tile, max);
  const bool is_log = segment.operation == Operation::kLogSoftmax;
  const bool is_kept = !is_log && tile.cols <= kMostKept<T> / kTileRows;
  if (is_kept) {
    SumOfColumns<true>(tile, max, factor, totals, kept);
  } else {
    SumOfColumns<false, T>(tile, max, factor, totals, nullptr);
  }
  for (int i = 0; i < tile.rows; ++i) {
    const Sum total = std::isfinite(max[i]) ? Sum{totals.highs[i], totals.lows[i]} : Sum{kNan, 0};
    inverse[i] = InverseOfBiased<T>(total);
    const Sum log_sum = is_log && tile.cols > kShort<T> ? LogOfBiased<T>(total) : total;  // short: TakeLogs() below
    logs.max[i] = kLogPart<T> * static_cast<double>(max[i]);
    logs.log_high[i] = log_sum.high;
    logs.log_low[i] = log_sum.low;
    if (tile.lengths[i] == 0) {
      tile.lengths[i] = tile.cols;  // a row without elements is NaN as a whole
    }
  }
  if (is_kept) {
    return ScaleColumns<T>(tile, kept, inverse);
  }
  if (!is_log) {
    return ExpColumns<T>(tile, max, factor, inverse);
  }
  if (tile.cols <= kShort<T>) {
    TakeLogs<T>(tile.rows, logs.log_high, logs.log_low);
  }
  if constexpr (sizeof(T) == 4 && sizeof(Out) == 2) {
    if (LogsInFloats<T, Out>(segment.scale)) {
      return FloatLogColumns(tile, max, logs, segment.scale);
    }
  }
  LogColumns<T>(tile, logs, segment.scale);
}

// The lengths of a tile's rows, from row `first` of the segment on.
template <typename In, typename Out>
void SetLengths(const Segment& segment, std::int64_t first, RowTile<In, Out>& tile) {
  tile.has_lengths = false;
  tile.longest = 0;
  for (int i = 0; i < tile.rows; ++i) {
    tile.lengths[i] = segment.lengths == nullptr ? segment.cols : segment.lengths[first + i];
    tile.has_lengths = tile.has_lengths || tile.lengths[i] != segment.cols;
    tile.longest = std::max(tile.longest, tile.lengths[i]);
  }
}

// Copies a few bytes, an even number of them, in pieces of one size that may overlap.
HWY_INLINE void CopyFew(const std::byte* from, std::size_t bytes, std::byte* to) {
  const auto copy = [&](auto size) HWY_ATTR {
    constexpr std::size_t kPiece = decltype(size)::value;
    for (std::size_t i = 0; i + kPiece < bytes; i += kPiece) {
      std::memcpy(to + i, from + i, kPiece);
    }
    std::memcpy(to + bytes - kPiece, from + bytes - kPiece, kPiece);
  };
  if (bytes >= 16) {
    copy(std::integral_constant<std::size_t, 16>());
  } else if (bytes >= 8) {
    copy(std::integral_constant<std::size_t, 8>());
  } else if (bytes >= 4) {
    copy(std::integral_constant<std::size_t, 4>());
  } else {
    copy(std::integral_constant<std::size_t, 2>());
  }
}

// Copies `few` elements of each column; columns are so many elements apart.
template <typename Element>
void CopyColumns(const Element* from, std::int64_t from_apart, std::int64_t cols, int few, std::int64_t to_apart,
                 Element* to) {
  for (std::int64_t c = 0; c < cols; ++c) {
    CopyFew(reinterpret_cast<const std::byte*>(from + c * from_apart), few * sizeof(Element),
            reinterpret_cast<std::byte*>(to + c * to_apart));
  }
}

// Calls visit(outer, inner, lane, few) for neighbours of one outer block among `rows` rows from row `first` on: `few`
// rows from there on, which are lanes of a tile.
template <class Visit>
void ForNeighbours(const Segment& segment, std::int64_t first, int rows, Visit visit) {
  for (int lane = 0; lane < rows;) {
    const std::int64_t inner = (first + lane) % segment.inner;
    const auto few = static_cast<int>(std::min<std::int64_t>(segment.inner - inner, rows - lane));
    visit((first + lane) / segment.inner, inner, lane, few);
    lane += few;
  }
}

// Columns of rows that are packed (64 KiB), as tiles of fewer rows than 16 waste what is done for all 16.
template <typename In, typename Out>
constexpr std::int64_t kMostPacked = 65536 / static_cast<std::int64_t>(std::max(sizeof(In), sizeof(Out))) / kTileRows;

// Rows [begin, end) of a segment with `inner` less than 16, and no more columns than are packed.
template <typename T, typename In, typename Out, Grade kGrade>
void RunPackedColumns(const Segment& segment, const Factor<T, kGrade>& factor, std::int64_t begin, std::int64_t end,
                      T* HWY_RESTRICT kept) {
  HWY_ALIGN In in[kMostPacked<In, Out> * kTileRows];
  HWY_ALIGN Out out[kMostPacked<In, Out> * kTileRows];
  RowTile<In, Out> tile;
  tile.in = in;
  tile.out = out;
  tile.cols = segment.cols;
  tile.inner = kTileRows;
  for (std::int64_t row = begin; row < end; row += tile.rows) {
    tile.rows = static_cast<int>(std::min<std::int64_t>(kTileRows, end - row));
    SetLengths(segment, row, tile);
    ForNeighbours(segment, row, tile.rows, [&](std::int64_t outer, std::int64_t inner, int lane, int few) HWY_ATTR {
      const In* const from = static_cast<const In*>(segment.input) + outer * segment.input_stride + inner;
      CopyColumns(from, segment.inner, segment.cols, few, kTileRows, in + lane);
    });
    RunTile<T>(tile, segment, factor, kept);
    ForNeighbours(segment, row, tile.rows, [&](std::int64_t outer, std::int64_t inner, int lane, int few) HWY_ATTR {
      Out* const to = static_cast<Out*>(segment.output) + outer * segment.output_stride + inner;
      CopyColumns(out + lane, kTileRows, segment.cols, few, segment.inner, to);
    });
  }
}

// Rows [begin, end) of a segment with any `inner`.
template <typename T, typename In, typename Out, Grade kGrade>
void RunColumns(const Segment& segment, const Factor<T, kGrade>& factor, std::int64_t begin, std::int64_t end) {
  HWY_ALIGN T kept[kMostKept<T>];
  if (segment.inner < kTileRows && segment.cols <= kMostPacked<In, Out>) {
    return RunPackedColumns<T, In, Out>(segment, factor, begin, end, kept);
  }
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t outer = row / segment.inner;
    const std::int64_t inner = row % segment.inner;
    RowTile<In, Out> tile;
    tile.in = static_cast<const In*>(segment.input) + outer * segment.input_stride + inner;
    tile.out = static_cast<Out*>(segment.output) + outer * segment.output_stride + inner;
    tile.cols = segment.cols;
    tile.inner = segment.inner;
    tile.rows = static_cast<int>(std::min({std::int64_t{kTileRows}, end - row, segment.inner - inner}));
    SetLengths(segment, row, tile);
    RunTile<T>(tile, segment, factor, kept);
    row += tile.rows;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
