#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/blocks/complete.cuh"
#include "kernels/cuda/small_rows/small.cuh"

// Dense rows of a few vectors: a block moves a tile of rows as one stretch of aligned vectors, and in shared memory
// every thread works on whole rows alone. The sums are those of the lanes that would share such a row elsewhere.
namespace softmax::kernels::cuda {

// Where element `at`, the first of a vector, lies in a tile. Rows of kRowVectors vectors, if that is not 0, are a
// vector farther apart there: threads that read a row each are then on different banks.
template <typename In, int kRowVectors>
__device__ __forceinline__ int TilePlace(int at) {
  constexpr int kVector = Element<In>::kVector;
  if constexpr (kRowVectors == 0) {
    return at;
  } else {
    return at + at / (kRowVectors * kVector) * kVector;
  }
}

// Copies `count` elements from a 16-byte boundary on to shared memory, for the whole block.
template <typename In, int kRowVectors = 0>
__device__ __forceinline__ void LoadTile(const In* input, int count, In* tile) {
  constexpr int kVector = Element<In>::kVector;
  const int whole = count / kVector * kVector;
  for (int at = static_cast<int>(threadIdx.x) * kVector; at < whole; at += kMatrixThreads * kVector) {
    __pipeline_memcpy_async(tile + TilePlace<In, kRowVectors>(at), input + at, sizeof(uint4));
  }
  __pipeline_commit();
  if constexpr (kRowVectors == 0) {
    const int last = whole + static_cast<int>(threadIdx.x);
    if (last < count) tile[last] = input[last];
  }
  __pipeline_wait_prior(0);
  __syncthreads();
}

// Stores `count` elements of a tile from a 16-byte boundary on, for the whole block.
template <typename In, int kRowVectors = 0>
__device__ __forceinline__ void StoreTile(const In* tile, int count, In* output) {
  constexpr int kVector = Element<In>::kVector;
  for (int at = static_cast<int>(threadIdx.x) * kVector; at < count; at += kMatrixThreads * kVector) {
    const uint4 y = *reinterpret_cast<const uint4*>(tile + TilePlace<In, kRowVectors>(at));
    if (kRowVectors != 0 || at + kVector <= count) {
      *reinterpret_cast<uint4*>(output + at) = y;
    } else {
      StoreRange(output + at, y, 0, count - at);
    }
  }
}

// The same of numbers, as elements of the type that the launch names, which is not In. `first`: the tile's place in the
// output.
template <typename In>
__device__ __forceinline__ void StoreNumbers(const MatrixParams& params, const float* numbers, int count,
                                             std::int64_t first) {
  constexpr int kPiece = 4;
  ForOutputType<In, false>(params.output_type, [&](auto* type) {
    const auto output = static_cast<decltype(type)>(params.output) + first;
    for (int at = static_cast<int>(threadIdx.x) * kPiece; at < count; at += kMatrixThreads * kPiece) {
      const uint4 vector = *reinterpret_cast<const uint4*>(numbers + at);
      float x[kPiece];
      memcpy(x, &vector, sizeof(x));
      StorePiece<false>(output, at, 0, count, x);
    }
  });
}

// The same of a tile of rows whose firsts are `pitch` elements apart there and `stride` in memory, each on a boundary
// in both or in none: whole vectors of rows, then what is left at the rows' ends, several threads each.
template <typename In>
__device__ __forceinline__ void StoreRows(const In* tile, int rows, int cols, int pitch, In* output,
                                          std::int64_t stride) {
  constexpr int kVector = Element<In>::kVector;
  constexpr int kStep = kMatrixThreads * kVector;
  const int row_step = kStep / pitch;
  const int column_step = kStep - row_step * pitch;
  const int first = static_cast<int>(threadIdx.x) * kVector;
  int row = first / pitch;
  int column = first - row * pitch;
  for (int at = first; row < rows; at += kStep) {
    if (column + kVector <= cols) {
      *reinterpret_cast<uint4*>(output + row * stride + column) = *reinterpret_cast<const uint4*>(tile + at);
    }
    row += row_step;
    column += column_step;
    if (column >= pitch) {
      column -= pitch;
      ++row;
    }
  }
  // Neighbouring threads have the end of one row and the beginning of the next.
  for (int i = static_cast<int>(threadIdx.x); i < rows * 2 * kVector; i += kMatrixThreads) {
    const int place = i % kVector;
    const bool is_end = i / kVector % 2 == 0;
    const int edge = i / (2 * kVector) + (is_end ? 0 : 1);  // its row
    const int count = (is_end ? edge * pitch + cols : -edge * pitch) & (kVector - 1);
    if (place >= count || edge >= rows) continue;
    const int at = is_end ? cols - count + place : place;
    output[edge * stride + at] = tile[edge * pitch + at];
  }
}

// What a tile takes in shared memory.
template <typename In>
__device__ __forceinline__ int TileElements(int rows, int pitch) {
  constexpr int kVector = Element<In>::kVector;
  return (rows * pitch + kVector - 1) / kVector * kVector;
}
// Where the results of a tile are kept as numbers.
template <typename In>
__device__ __forceinline__ float* NumbersOf(In* tile, const MatrixParams& params) {
  const auto pitch = static_cast<int>(params.input_stride);
  return reinterpret_cast<float*>(sizeof(In) == 4 ? tile : tile + TileElements<In>(params.rows_per_block, pitch));
}

template <typename In, int kColumns, bool kLog>
class TinyRow {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kVectors = (kColumns + kVector - 1) / kVector;
  static constexpr int kPlaces = kColumns < kVector ? kColumns : kVector;  // the others of a vector are empty
  static constexpr bool kNarrow = HasNarrow(kColumns, sizeof(In));         // the columns are all there are
  // Columns of every such row.
  static constexpr int kSure = kNarrow                                      ? kColumns
                               : kColumns < kVector                         ? kColumns / 2
                               : sizeof(In) == 2 && kColumns <= 2 * kVector ? kColumns - kVector / 2
                                                                            : kColumns - kVector;
  static constexpr bool kWhole =
      !kNarrow && sizeof(In) <= 4 && kColumns % kVector == 0;  // whole vectors where all columns are there
  static constexpr int kLanes = RowLanes(kColumns, sizeof(In));
  static constexpr int kSlots = (kVectors + kLanes - 1) / kLanes;

  // Whether elements may move two at a time.
  static constexpr bool kHasPairs = sizeof(In) == 2 && !kNarrow;

  // Replaces the row by its results, or has them beside it as numbers. `whole`: it has kColumns columns and lies on a
  // boundary. `within`: it begins within a word, which counts for 16-bit elements.
  template <typename Result>
  __device__ __forceinline__ static void Run(const In* row, Result* results, int cols, int valid, bool whole,
                                             bool within, const Scale<C>& scale) {
    C x[kColumns];
    Read(row, cols, whole, within, x);
    if (valid < cols) Mask(x, valid, -Infinity<C>());
    const C masked = Compute(x, valid, scale);
    if (valid < cols) Mask(x, valid, masked);
    if constexpr (std::is_same_v<Result, In>) {
      Write(results, cols, whole, within, x);
    } else {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (c < kSure || c < cols) results[c] = x[c];
      }
    }
  }

  // Replaces the elements by their results and returns that of masked ones, which are -inf here.
  __device__ __forceinline__ static C Compute(C (&x)[kColumns], int valid, const Scale<C>& scale) {
    const C max = Maximum(x);
    if constexpr (kLog) {
      const Normalizer<C> normalize(scale, LogStats<false>(x, max, valid, scale), true, valid == 0);
      normalize.template Apply<In, true>(x);
      return normalize.masked;
    } else {
      const ExpBase<C> base(max, scale);
      base.SubtractFrom(x);
      const double sum = Exponentials(
          x, [&](C y) { return base.PlainExp(y, scale); }, x);
      const Normalizer<C> normalize(scale, Stats<C>{max, static_cast<C>(sum * base.correction)}, false, valid == 0);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) x[c] *= normalize.factor;
      return normalize.masked;
    }
  }

  __device__ __forceinline__ static C Maximum(const C (&x)[kColumns]) {
    C max = x[0];
#pragma unroll
    for (int c = 1; c < kColumns; ++c) max = fmax(max, x[c]);
    // fmax drops NaN, but not that of a lone first element.
    return max == max ? max : -Infinity<C>();
  }

  // kFinite: the maximum is a number.
  template <bool kFinite>
  __device__ __forceinline__ static RowStats<C> LogStats(const C (&x)[kColumns], C max, int valid,
                                                         const Scale<C>& scale) {
    if (kColumns <= kPreciseColumns || valid <= kPreciseColumns) return PreciseRow<kFinite>(x, max, scale);
    const ExpBase<C> base(max, scale);
    const double sum = Exponentials(
        x, [&](C y) { return base.Exp(y, scale); }, static_cast<C*>(nullptr));
    return Stats<C>{max, static_cast<C>(sum * base.correction)};
  }

  // The exponentials, kept in `y` unless it is null, and their sum.
  template <typename F>
  __device__ __forceinline__ static double Exponentials(const C (&x)[kColumns], F exponential, C* y) {
    double lane_sums[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      C sums[kPlaces] = {};  // of lanes that have no vector
#pragma unroll
      for (int j = 0; j < kSlots; ++j) {
        const int vector = j * kLanes + lane;
        if (vector >= kVectors) break;
#pragma unroll
        for (int e = 0; e < kPlaces; ++e) {
          const int c = vector * kVector + e;
          if (c >= kColumns) break;
          const C exp = exponential(x[c]);
          if (y != nullptr) y[c] = exp;
          sums[e] = j == 0 ? exp : sums[e] + exp;
        }
      }
      lane_sums[lane] = TreeSum(sums);
    }
    return TreeSum(lane_sums);
  }

 private:
  __device__ __forceinline__ static void Mask(C (&x)[kColumns], int valid, C value) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (c >= valid) x[c] = value;
    }
  }

  // PlacesSum of `kCount` places, of which those up to the next power of two are empty.
  template <typename T, int kCount>
  __device__ __forceinline__ static double TreeSum(const T (&x)[kCount]) {
    constexpr int kAll = kCount > 4 ? 8 : kCount > 2 ? 4 : kCount;
    static_assert(kCount <= 8 && (kAll == kCount || kCount == kPlaces), "a vector's places at most");
    double sums[kAll];
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] = x[i];
#pragma unroll
    for (int step = kAll / 2, count = kCount; step > 0; step /= 2) {
#pragma unroll
      for (int i = 0; i + step < count; ++i) sums[i] += sums[i + step];
      count = count < step ? count : step;
    }
    return sums[0];
  }

  // Calls single(c) or pair(c) for the columns that every row has, the first pair beginning with column kBegin.
  template <int kBegin, typename F, typename G>
  __device__ __forceinline__ static void ForSure(F single, G pair) {
#pragma unroll
    for (int c = 0; c < kSure; ++c) {
      if (c < kBegin || (c == kSure - 1 && c % 2 == kBegin)) {
        single(c);
      } else if (c % 2 == kBegin) {
        pair(c);
      }
    }
  }
  // The same for all of its columns.
  template <typename F, typename G>
  __device__ __forceinline__ static void ForEach(int cols, bool within, F single, G pair) {
    if constexpr (!kHasPairs) {
      ForSure<kColumns>(single, pair);
    } else if (within) {
      ForSure<1>(single, pair);
    } else {
      ForSure<0>(single, pair);
    }
#pragma unroll
    for (int c = kSure; c < kColumns; ++c) {
      if (c < cols) single(c);
    }
  }

  __device__ __forceinline__ static void Read(const In* row, int cols, bool whole, bool within, C (&x)[kColumns]) {
    if (kWhole && whole) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        C y[kVector];
        Unpack<In>(reinterpret_cast<const uint4*>(row)[v], y);
#pragma unroll
        for (int e = 0; e < kVector; ++e) x[(v * kVector + e) % kColumns] = y[e];
      }
      return;
    }
#pragma unroll
    for (int c = kSure; c < kColumns; ++c) x[c] = -Infinity<C>();
    ForEach(
        cols, within, [&](int c) { x[c] = ToCompute(row[c]); },
        [&](int c) {
          if constexpr (kHasPairs) LoadPair(row + c, &x[c], &x[c + 1]);
        });
  }
  __device__ __forceinline__ static void Write(In* row, int cols, bool whole, bool within, const C (&x)[kColumns]) {
    if (kWhole && whole) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        C y[kVector];
#pragma unroll
        for (int e = 0; e < kVector; ++e) y[e] = x[(v * kVector + e) % kColumns];
        reinterpret_cast<uint4*>(row)[v] = Pack<In>(y);
      }
      return;
    }
    ForEach(
        cols, within, [&](int c) { row[c] = FromCompute<In, C>(x[c]); },
        [&](int c) {
          if constexpr (kHasPairs) StorePair(row + c, x[c], x[c + 1]);
        });
  }

  // See PreciseStats.
  template <bool kFinite>
  __device__ __forceinline__ static RowStats<C> PreciseRow(const C (&x)[kColumns], C max, const Scale<C>& scale) {
    constexpr int kTerms = kColumns > 4 ? 8 : kColumns > 2 ? 4 : 2;
    TwoPart<C> sums[kTerms];
#pragma unroll
    for (int c = 0; c < kColumns && c < kPreciseColumns; ++c) {
      if constexpr (kNarrow) {
        sums[c].high = NarrowExp<In, true, kFinite>(x[c], max, scale);
      } else {
        sums[c].high = scale.PreciseExp(x[c], MaxPre(max, scale));
      }
    }
    if constexpr (kNarrow && kColumns == 1) return {max, sums[0].high, C(0)};
    HalvingSum<kTerms, 1>(sums);
    if constexpr (kNarrow) return {max, sums[0].high, sums[0].low};
    return {max, sums[0].high + sums[0].low, C(0)};
  }
};

// Blocks that a multiprocessor has to hold, so that enough bytes are on their way: the columns take their registers.
template <typename In, int kColumns>
constexpr int kTinyBlocks = sizeof(In) == 8  ? (kColumns == 4 ? 3 : 0)
                            : kColumns <= 16 ? kMostSmallBlocks
                            : kColumns <= 32 ? 4
                            : kColumns <= 48 ? 3
                                             : 2;

// Results of another type than the input's are kept as numbers until they are stored: those of fp32 take the elements'
// places, those of 16 bits (kMixed) lie behind them.
template <typename In, int kColumns, bool kLog, bool kMixed = false>
__global__ void __launch_bounds__(kMatrixThreads, (kTinyBlocks<In, kColumns>))
    TinyMatrixKernel(const __grid_constant__ MatrixParams params) {
  extern __shared__ __align__(16) unsigned char shared[];
  In* const tile = reinterpret_cast<In*>(shared);
  const auto cols = static_cast<int>(params.cols);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * params.rows_per_block;
  const std::int64_t left = params.rows - first;
  const int rows = left < params.rows_per_block ? static_cast<int>(left) : params.rows_per_block;
  const Scale<ComputeOf<In>> scale = ScaleOf<ComputeOf<In>>(params);
  using Row = TinyRow<In, kColumns, kLog>;
  // Aligned rows of an even number of vectors would all begin on the same few banks.
  constexpr int kPadEvery = Row::kWhole && Row::kVectors % 2 == 0 ? Row::kVectors : 0;
  const bool whole = Row::kWhole && cols == kColumns;
  const bool padded = kPadEvery != 0 && whole;
  const int pitch = cols + (padded ? Row::kVector : 0);
  AskAhead<In>(params);
  BeginAccess(params);
  const In* const input = static_cast<const In*>(params.input) + first * cols;
  if (padded) {
    LoadTile<In, kPadEvery>(input, rows * cols, tile);
  } else {
    LoadTile(input, rows * cols, tile);
  }
  // Odd rows of 16 bits begin half a word apart: with only every other one in a warp all of its rows begin alike.
  const auto thread = static_cast<int>(threadIdx.x);
  const bool is_odd = Row::kHasPairs && pitch % 2 != 0;
  const int own = !is_odd ? thread : thread < kMatrixThreads / 2 ? 2 * thread : 2 * thread - kMatrixThreads + 1;
  for (int row = own; row < rows; row += kMatrixThreads) {
    const int valid = params.lengths == nullptr ? cols : static_cast<int>(ValidLength(params, first + row));
    In* const at = tile + row * pitch;
    const bool within = is_odd && own % 2 != 0;
    if constexpr (kMixed) {
      Row::Run(at, NumbersOf(tile, params) + row * cols, cols, valid, whole, within, scale);
    } else {
      Row::Run(at, at, cols, valid, whole, within, scale);
    }
  }
  __syncthreads();
  In* const output = static_cast<In*>(params.output) + first * cols;
  if (kMixed || (sizeof(In) == 4 && params.output_type != DataType::kFloat32)) {
    if constexpr (sizeof(In) <= 4) StoreNumbers<In>(params, NumbersOf(tile, params), rows * cols, first * cols);
  } else if (padded) {
    StoreTile<In, kPadEvery>(tile, rows * cols, output);
  } else {
    StoreTile(tile, rows * cols, output);
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
