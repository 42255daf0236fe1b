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

#include "kernels/cpu/log-inl.h"
#include "kernels/operations.h"
#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr int kTileRows = 16;
template <typename T>
constexpr int kRowVecs = kTileRows / kLanes<T>;

// Columns of a tile that are kept as T on their way (256 KiB).
template <typename T>
constexpr std::int64_t kKeptColumns = 262144 / sizeof(T) / kTileRows;

// A tile of at most 16 rows.
struct RowTile {
  std::int64_t cols;
  int rows;
  bool has_lengths;
  std::int64_t lengths[kTileRows];
  std::int64_t longest;
};

// Columns [begin, end) of a tile.
struct ColumnRange {
  std::int64_t begin;
  std::int64_t end;
};

// Columns of 16 elements each, `apart` from each other.
template <typename T>
struct TileColumns {
  const T* first;
  std::int64_t apart;

  const T* At(std::int64_t c) const { return first + c * apart; }
};

// Brings columns of a tile to `kept`, 16 elements each, minus infinity for those that are missing or beyond their row's
// length, and raises `max`, one a row, to the largest of them; with nullptr it does only that.
template <typename T, typename In>
HWY_NOINLINE void LoadColumns(const RowTile& tile, const ColumnRange& columns, const TileColumns<In>& in,
                              T* HWY_RESTRICT kept, T* HWY_RESTRICT max) {
  const Tag<T> d;
  VecOf<T> largest[kRowVecs<T>];
  for (int u = 0; u < kRowVecs<T>; ++u) {
    largest[u] = hn::Load(d, max + u * kLanes<T>);
  }
  const int rows = tile.has_lengths ? kTileRows : tile.rows;
  const bool keeps = kept != nullptr;
  for (std::int64_t c = columns.begin; c < columns.end; ++c) {
    const In* from = in.At(c);
    In chosen[kTileRows];
    if (HWY_UNLIKELY(tile.has_lengths)) {
      for (int i = 0; i < kTileRows; ++i) {
        const bool is_there = i < tile.rows && c < tile.lengths[i];
        chosen[i] = is_there ? from[i] : Constants<In>::kNegativeInfinity;
      }
      from = chosen;
    }
    for (int u = 0; u < kRowVecs<T>; ++u) {
      const int at = u * kLanes<T>;
      const auto vec =
          HWY_LIKELY(rows - at >= kLanes<T>) ? LoadVec<T>(from + at) : LoadSomeVec<T>(from + at, rows - at);
      if (keeps) {
        hn::Store(vec, d, kept + at);
      }
      largest[u] = hn::Max(largest[u], vec);
    }
    kept += keeps ? kTileRows : 0;
  }
  for (int u = 0; u < kRowVecs<T>; ++u) {
    hn::Store(largest[u], d, max + u * kLanes<T>);
  }
}

// Where a tile's answers go; columns are `apart` elements from each other.
template <typename Out>
struct ColumnOutput {
  Out* out;
  std::int64_t apart;
  Out masked;
};

// Stores column c of 16 answers, kLanes<E> of which are vec(u).
template <typename E, typename Out, class F>
HWY_INLINE void StoreColumn(const RowTile& tile, const ColumnOutput<Out>& output, std::int64_t c, F vec) {
  Out* const to = output.out + c * output.apart;
  if (HWY_LIKELY(!tile.has_lengths)) {
    for (int u = 0; u < kRowVecs<E>; ++u) {
      const int at = u * kLanes<E>;
      if (HWY_LIKELY(tile.rows - at >= kLanes<E>)) {
        StoreVec<E>(vec(u), to + at);
      } else {
        StoreSomeVec<E>(vec(u), to + at, tile.rows - at);
      }
    }
    return;
  }
  Out whole[kTileRows];
  for (int u = 0; u < kRowVecs<E>; ++u) {
    StoreVec<E>(vec(u), whole + u * kLanes<E>);
  }
  for (int i = 0; i < tile.rows; ++i) {
    to[i] = c < tile.lengths[i] ? whole[i] : output.masked;
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
HWY_NOINLINE void CloseTile(ColumnSums<T>& state) {
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

// Adds the exponentials of columns to the sums and leaves them at `exps`, which may be where the columns are, 16
// elements each. Either may be nullptr.
template <typename T, Grade kGrade>
HWY_NOINLINE void ExpColumns(const ColumnRange& columns, const TileColumns<T> given, const T* HWY_RESTRICT max,
                             const Factor<T, kGrade>& factor, ColumnSums<T>* state, T* exps) {
  const Tag<T> d;
  const bool adds = state != nullptr;
  const bool keeps = exps != nullptr;
  for (std::int64_t c = columns.begin; c < columns.end; ++c) {
    if (adds && c != 0 && c % kTile<T> == 0) {
      CloseTile(*state);
    }
    const T* const from = given.At(c);
    VecOf<T> e[kRowVecs<T>];
    for (int u = 0; u < kRowVecs<T>; ++u) {
      e[u] = hn::Sub(hn::LoadU(d, from + u * kLanes<T>), hn::Load(d, max + u * kLanes<T>));
    }
    BiasedExps<T>(e, factor);
    if (adds) {
      T* const partial = state->partials[c / kHalfTile<T> % 2] + c % kPartials<T> * kTileRows;
      for (int u = 0; u < kRowVecs<T>; ++u) {
        hn::Store(hn::Add(hn::Load(d, partial + u * kLanes<T>), e[u]), d, partial + u * kLanes<T>);
      }
    }
    if (keeps) {
      for (int u = 0; u < kRowVecs<T>; ++u) {
        hn::Store(e[u], d, exps + u * kLanes<T>);
      }
      exps += kTileRows;
    }
  }
}

// The last step of softmax, of exponentials that were kept.
template <typename T, typename Out>
HWY_NOINLINE void ScaleColumns(const RowTile& tile, const ColumnRange& columns, const T* HWY_RESTRICT kept,
                               const T* HWY_RESTRICT inverse, const ColumnOutput<Out>& output) {
  const Tag<T> d;
  for (std::int64_t c = columns.begin; c < columns.end; ++c, kept += kTileRows) {
    StoreColumn<T>(tile, output, c, [&](int u) HWY_ATTR {
      return hn::Mul(hn::Load(d, kept + u * kLanes<T>), hn::Load(d, inverse + u * kLanes<T>));
    });
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

// The last step of log-softmax.
template <typename T, typename Out>
HWY_NOINLINE void LogColumns(const RowTile& tile, const ColumnRange& columns, const TileColumns<T>& given,
                             const T* HWY_RESTRICT max, const RowLogs& logs, double scale,
                             const ColumnOutput<Out>& output) {
  if constexpr (sizeof(T) == 4 && sizeof(Out) == 2) {
    if (LogsInFloats<T, Out>(scale)) {
      const Tag<float> d;
      HWY_ALIGN float log_sums[kTileRows];
      std::copy(logs.log_high, logs.log_high + kTileRows, log_sums);
      const auto by = hn::Set(d, static_cast<float>(scale));
      for (std::int64_t c = columns.begin; c < columns.end; ++c) {
        const float* const from = given.At(c);
        StoreColumn<float>(tile, output, c, [&](int u) HWY_ATTR {
          const int at = u * kLanes<float>;
          return FloatLogOf(hn::LoadU(d, from + at), hn::Load(d, max + at), hn::Load(d, log_sums + at), by);
        });
      }
      return;
    }
  }
  using E = LogElement<T, Out>;
  const auto by = hn::Set(Tag<double>(), scale / kLogPart<T>);
  for (std::int64_t c = columns.begin; c < columns.end; ++c) {
    const T* const from = given.At(c);
    StoreColumn<E>(tile, output, c, [&](int u) HWY_ATTR {
      const int lower = u * kLanes<E>;
      const int upper = lower + kLanes<E> - kLanes<double>;
      return LogsOf<T>(LoadVec<E>(from + lower), logs.From(lower), logs.From(upper), by);
    });
  }
}

// What the last step of softmax and of log-softmax know of a tile's rows.
template <typename T>
struct TileTotals {
  HWY_ALIGN T max[kTileRows];
  HWY_ALIGN T inverse[kTileRows];
  RowLogs logs;
};

template <typename T>
HWY_NOINLINE void CloseTotals(const RowTile& tile, bool is_log, ColumnSums<T>& state, TileTotals<T>& totals) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  RowLogs& logs = totals.logs;
  CloseTile(state);
  for (int i = 0; i < kTileRows; i += kLanes<double>) {
    StoreTotalsOfRows(state.sums + i, state.rests + i, kTileRows, logs.log_high + i, logs.log_low + i);
  }
  const bool is_short = tile.cols <= kShort<T>;
  for (int i = 0; i < tile.rows; ++i) {
    const Sum total = std::isfinite(totals.max[i]) ? Sum{logs.log_high[i], logs.log_low[i]} : Sum{kNan, 0};
    const Sum log_sum = is_log && !is_short ? LogOfBiased<T>(total) : total;  // short: TakeLogs() below
    totals.inverse[i] = InverseOfBiased<T>(total);
    logs.max[i] = kLogPart<T> * static_cast<double>(totals.max[i]);
    logs.log_high[i] = log_sum.high;
    logs.log_low[i] = log_sum.low;
  }
  if (is_log && is_short) {
    TakeLogs<T>(tile.rows, logs.log_high, logs.log_low);
  }
}

// Calls visit(columns) for columns [0, count), `most` at a time.
template <class Visit>
HWY_INLINE void ForParts(std::int64_t count, std::int64_t most, Visit visit) {
  for (std::int64_t begin = 0; begin < count; begin += most) {
    visit(ColumnRange{begin, std::min(begin + most, count)});
  }
}

// One tile. Whole ones of the type computed in are read where they are; of others all columns that fit are kept as that
// type, or else a few at a time, and loaded again for every step.
template <typename T, typename In, typename Out>
HWY_NOINLINE void RunTile(const Segment& segment, const AnyFactor<T>& factor, RowTile& tile, const TileColumns<In>& in,
                          Out* out, std::int64_t out_apart, T* kept) {
  const bool is_log = TraitsOf(segment.operation).is_log;
  const bool fits = tile.cols <= kKeptColumns<T>;
  const std::int64_t most = fits ? kKeptColumns<T> : 64;  // which the nearest cache holds
  const ColumnOutput<Out> output{out, out_apart, MaskedValue<Out>(segment.operation)};
  TileTotals<T> totals = {};
  std::fill(totals.max, totals.max + kTileRows, Constants<T>::kNegativeInfinity);
  ColumnSums<T> state;
  std::memset(&state, 0, sizeof(state));
  TileColumns<T> given{kept, kTileRows};
  bool loads = true;
  if constexpr (std::is_same_v<T, In>) {
    if (tile.rows == kTileRows && !tile.has_lengths) {
      given = in;
      loads = false;
    }
  }
  const auto load = [&](const ColumnRange& part) HWY_ATTR {
    LoadColumns<T>(tile, part, in, loads ? kept : nullptr, totals.max);
    if (loads) given.first = kept - part.begin * kTileRows;
  };
  const auto take_exps = [&](const ColumnRange& part, ColumnSums<T>* sums, T* exps) HWY_ATTR {
    WithGrade(factor, [&](const auto& graded) HWY_ATTR { ExpColumns<T>(part, given, totals.max, graded, sums, exps); });
  };
  const std::int64_t most_of_sums = loads ? most : tile.cols;
  ForParts(tile.longest, most_of_sums, load);
  ForParts(tile.longest, most_of_sums, [&](const ColumnRange& part) HWY_ATTR {
    if (loads && !fits) load(part);
    take_exps(part, &state, fits && !is_log ? kept : nullptr);
  });
  CloseTotals(tile, is_log, state, totals);
  for (int i = 0; i < tile.rows; ++i) {
    if (tile.lengths[i] == 0) tile.lengths[i] = tile.cols;  // a row without elements is NaN as a whole
  }
  // Beyond the longest row everything is masked, or NaN whatever it is computed from.
  ForParts(tile.cols, most, [&](const ColumnRange& part) HWY_ATTR {
    if (loads && !fits) load(part);
    if (is_log) return LogColumns(tile, part, given, totals.max, totals.logs, segment.scale, output);
    if (!fits) take_exps(part, nullptr, kept);
    ScaleColumns(tile, part, kept, totals.inverse, output);
  });
}

// A tile without its columns, from row `first` of the segment on.
inline RowTile TileOf(const Segment& segment, std::int64_t first, std::int64_t rows) {
  RowTile tile{segment.cols, static_cast<int>(rows), false, {}, 0};
  for (int i = 0; i < tile.rows; ++i) {
    tile.lengths[i] = segment.lengths == nullptr ? segment.cols : segment.lengths[first + i];
    tile.has_lengths = tile.has_lengths || tile.lengths[i] != segment.cols;
    tile.longest = std::max(tile.longest, tile.lengths[i]);
  }
  return tile;
}

// Copies a few bytes, an even number of them, in pieces of one size that may overlap.
HWY_INLINE void CopyFew(const char* from, std::size_t bytes, char* to) {
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

// Copies `rows` rows from row `first` of a tensor on to a packed tile, or back. The tensor's blocks are `stride`
// elements apart; elements have `size` bytes.
template <bool kBack>
HWY_NOINLINE void CopyTile(const Segment& segment, std::int64_t first, int rows, std::int64_t stride, std::int64_t size,
                           std::conditional_t<kBack, char*, const char*> tensor,
                           std::conditional_t<kBack, const char*, char*> packed) {
  for (int lane = 0; lane < rows;) {
    const std::int64_t inner = (first + lane) % segment.inner;
    const std::int64_t few = std::min<std::int64_t>(segment.inner - inner, rows - lane);
    auto* here = tensor + ((first + lane) / segment.inner * stride + inner) * size;
    auto* there = packed + lane * size;
    const auto bytes = static_cast<std::size_t>(few * size);
    for (std::int64_t c = 0; c < segment.cols; ++c, here += segment.inner * size, there += kTileRows * size) {
      if constexpr (kBack) {
        CopyFew(there, bytes, here);
      } else {
        CopyFew(here, bytes, there);
      }
    }
    lane += static_cast<int>(few);
  }
}

// Rows [begin, end) of a segment with any `inner`. Few columns of fewer rows than a tile has are packed to whole tiles,
// as tiles of fewer rows waste what is done for all 16.
template <typename T, typename In, typename Out>
HWY_NOINLINE void RunColumns(const Segment& segment, const AnyFactor<T>& factor, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kPackedBytes = 65536;
  constexpr auto kLargest = static_cast<std::int64_t>(std::max(sizeof(In), sizeof(Out)));
  HWY_ALIGN T kept[kKeptColumns<T> * kTileRows];
  HWY_ALIGN char packed_in[kPackedBytes];
  HWY_ALIGN char packed_out[kPackedBytes];
  const bool packs = segment.inner < kTileRows && segment.cols * kTileRows * kLargest <= kPackedBytes;
  const In* const all_in = static_cast<const In*>(segment.input);
  Out* const all_out = static_cast<Out*>(segment.output);
  for (std::int64_t row = begin; row < end;) {
    const std::int64_t inner = row % segment.inner;
    const std::int64_t rows = std::min<std::int64_t>(kTileRows, end - row);
    if (packs) {
      RowTile tile = TileOf(segment, row, rows);
      CopyTile<false>(segment, row, tile.rows, segment.input_stride, sizeof(In),
                      static_cast<const char*>(segment.input), packed_in);
      RunTile<T>(segment, factor, tile, TileColumns<In>{reinterpret_cast<const In*>(packed_in), kTileRows},
                 reinterpret_cast<Out*>(packed_out), kTileRows, kept);
      CopyTile<true>(segment, row, tile.rows, segment.output_stride, sizeof(Out), static_cast<char*>(segment.output),
                     packed_out);
      row += rows;
    } else {
      RowTile tile = TileOf(segment, row, std::min(rows, segment.inner - inner));
      const In* const in = all_in + row / segment.inner * segment.input_stride + inner;
      Out* const out = all_out + row / segment.inner * segment.output_stride + inner;
      RunTile<T>(segment, factor, tile, TileColumns<In>{in, segment.inner}, out, segment.inner, kept);
      row += tile.rows;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
