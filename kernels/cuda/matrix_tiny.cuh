#pragma once

#include <cuda_pipeline.h>

#include <cfloat>

#include "kernels/cuda/complete.cuh"
#include "kernels/cuda/matrix_small.cuh"

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

  // Replaces the row by its results. `whole`: it has kColumns columns and lies on a boundary.
  __device__ __forceinline__ static void Run(In* row, int cols, int valid, bool whole, const Scale<C>& scale) {
    C x[kColumns];
    if (kWhole && whole) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        C y[kVector];
        Unpack<In>(reinterpret_cast<const uint4*>(row)[v], y);
#pragma unroll
        for (int e = 0; e < kVector; ++e) x[(v * kVector + e) % kColumns] = y[e];
      }
    } else {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        x[c] = c < kSure || c < cols ? ToCompute(row[c]) : -Infinity<C>();
      }
    }
    if (valid < cols) Mask(x, valid, -Infinity<C>());
    const C masked = Compute(x, valid, scale);
    if (valid < cols) Mask(x, valid, masked);
    if (kWhole && whole) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        C y[kVector];
#pragma unroll
        for (int e = 0; e < kVector; ++e) y[e] = x[(v * kVector + e) % kColumns];
        reinterpret_cast<uint4*>(row)[v] = Pack<In>(y);
      }
    } else {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (c < kSure || c < cols) row[c] = FromCompute<In, C>(x[c]);
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
      const double sum = Exponentials(
          x, [&](C y) { return base.Exp(y, scale); }, x);
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

template <typename In, int kColumns, bool kLog>
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
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += kMatrixThreads) {
    const int valid = params.lengths == nullptr ? cols : static_cast<int>(ValidLength(params, first + row));
    Row::Run(tile + row * pitch, cols, valid, whole, scale);
  }
  __syncthreads();
  In* const output = static_cast<In*>(params.output) + first * cols;
  if (padded) {
    StoreTile<In, kPadEvery>(tile, rows * cols, output);
  } else {
    StoreTile(tile, rows * cols, output);
  }
  Complete(params.completion);
}

// Rows of at most kNarrowColumns columns, so many that they are whole vectors: a thread has them all in registers.
template <typename In, int kColumns, bool kLog>
class NarrowRows {
 public:
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kRows = BoundaryStep(kColumns, sizeof(In));
  static constexpr int kVectors = kRows * kColumns / kVector;

  // Whether Run() has the form that results take with this scale.
  __device__ __forceinline__ static bool Suits(const Scale<float>& scale) {
    return !kLog || sizeof(In) != 2 || scale.plain != 0;
  }

  // Replaces the rows by their results. False: a maximum is far out or no number, and Redo() is needed.
  __device__ __forceinline__ static bool Run(uint4 (&v)[kVectors], const Scale<float>& scale) {
    // Vectors are closed when their last row is done, as all elements at once take twice the registers; of log-softmax
    // they are also opened when their first row comes. (With softmax that spilled.)
    float x[kVectors][kVector];
    bool usual = true;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        if ((kLog ? j * kVector / kColumns : 0) == r) Unpack<In>(v[j], x[j]);
      }
      float row[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) row[c] = x[(r * kColumns + c) / kVector][(r * kColumns + c) % kVector];
      const bool row_usual = kLog ? LogSoftmax(row, scale) : Softmax(row, scale);
      usual = usual && row_usual;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) x[(r * kColumns + c) / kVector][(r * kColumns + c) % kVector] = row[c];
#pragma unroll
      for (int j = 0; j < kVectors; ++j) {
        if (((j + 1) * kVector - 1) / kColumns == r) v[j] = Pack<In>(x[j]);
      }
    }
    return usual;
  }

  // The same for rows in memory, `count` elements in all, whatever they are.
  __device__ __forceinline__ static void Redo(In* rows, int count, const Scale<float>& scale) {
#pragma unroll 1
    for (int at = 0; at < count; at += kColumns) Row::Run(rows + at, kColumns, kColumns, false, scale);
  }

 private:
  using Row = TinyRow<In, kColumns, kLog>;

  // These do as TinyRow does, without what only maxima far out need.
  __device__ __forceinline__ static bool Softmax(float (&x)[kColumns], const Scale<float>& scale) {
    if constexpr (kColumns == 1 && sizeof(In) == 2) {
      x[0] = fabsf(x[0]) < Infinity<float>() ? 1.0f : NAN;  // what rounding makes of it
      return true;
    }
    const float max = Maximum(x);
    const float shift = max * scale.fast;
    const float correction = ShiftCorrection(max, shift, scale);
    const double sum = Row::Exponentials(
        x, [&](float y) { return scale.PlainExp(y, shift); }, x);
    const float factor = PlainQuotient(correction, static_cast<float>(sum * correction));
#pragma unroll
    for (int c = 0; c < kColumns; ++c) x[c] *= factor;
    return fabsf(shift) <= kMostShift;
  }
  __device__ __forceinline__ static bool LogSoftmax(float (&x)[kColumns], const Scale<float>& scale) {
    if constexpr (kColumns == 1) {
      const bool finite = fabsf(x[0]) < Infinity<float>();
      const float y = sizeof(In) == 2 ? 0.0f : LogResult(x[0], scale, x[0] * scale.pre, 0.0f, 0.0f);
      x[0] = finite ? y : NAN;
      return true;
    }
    const float max = Maximum(x);
    const RowStats<float> stats = Row::template LogStats<true>(x, max, kColumns, scale);
    float log_lo;
    const float log = LogTwo(stats.sum, stats.low, &log_lo);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      x[c] = sizeof(In) == 2 ? fmaf(x[c] - max, scale.plain, -log)
                             : AnyLogResult(x[c], scale, max * scale.pre, log, log_lo);
    }
    return fabsf(max) <= (sizeof(In) == 2 ? kMostPlain : FLT_MAX);
  }

  __device__ __forceinline__ static float Maximum(const float (&x)[kColumns]) {
    float max = x[0];
#pragma unroll
    for (int c = 1; c < kColumns; ++c) max = fmaxf(max, x[c]);
    return max;
  }
};

// One vector is several rows: no thread needs another's elements. Each takes kEach vectors.
template <typename In, int kColumns, bool kLog, int kEach>
__device__ __forceinline__ void RunNarrowVectors(const MatrixParams& params, std::int64_t first, int rows,
                                                 const Scale<float>& scale) {
  using Rows = NarrowRows<In, kColumns, kLog>;
  constexpr int kVector = Element<In>::kVector;
  const In* const input = static_cast<const In*>(params.input) + first * kColumns;
  In* const output = static_cast<In*>(params.output) + first * kColumns;
  const int count = rows * kColumns;
  uint4 v[kEach] = {};
  int redo = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = (i * kMatrixThreads + static_cast<int>(threadIdx.x)) * kVector;
    if (at + kVector <= count) {
      v[i] = *reinterpret_cast<const uint4*>(input + at);
    } else if (at < count) {
      v[i] = LoadRange(input + at, 0, count - at);
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = (i * kMatrixThreads + static_cast<int>(threadIdx.x)) * kVector;
    uint4 y[1] = {v[i]};
    const bool done = Rows::Run(y, scale);
    if (at + kVector <= count) {
      *reinterpret_cast<uint4*>(output + at) = done ? y[0] : v[i];
    } else if (at < count) {
      StoreRange(output + at, done ? y[0] : v[i], 0, count - at);
    }
    redo |= done ? 0 : 1 << i;
  }
#pragma unroll 1
  for (int i = 0; redo >> i != 0; ++i) {
    const int at = (i * kMatrixThreads + static_cast<int>(threadIdx.x)) * kVector;
    if ((redo >> i & 1) != 0) Rows::Redo(output + at, min(count - at, kVector), scale);
  }
}

template <typename In, int kColumns, bool kLog>
__device__ __forceinline__ void RunNarrowTile(In* tile, int rows, const Scale<float>& scale) {
  using Rows = NarrowRows<In, kColumns, kLog>;
  for (int group = static_cast<int>(threadIdx.x); group * Rows::kRows < rows; group += kMatrixThreads) {
    uint4* const vectors = reinterpret_cast<uint4*>(tile) + group * Rows::kVectors;
    uint4 v[Rows::kVectors];
#pragma unroll
    for (int j = 0; j < Rows::kVectors; ++j) v[j] = vectors[j];
    if (Rows::Run(v, scale)) {
#pragma unroll
      for (int j = 0; j < Rows::kVectors; ++j) vectors[j] = v[j];
    } else {
      Rows::Redo(reinterpret_cast<In*>(vectors), Rows::kRows * kColumns, scale);
    }
  }
}

// Blocks that a multiprocessor has to hold: the vectors take their registers.
template <typename In, int kColumns>
constexpr int kNarrowBlocks = NarrowRows<In, kColumns, false>::kVectors >= 5 ? 3 : 4;

template <typename In, int kColumns, bool kLog>
__global__ void __launch_bounds__(kMatrixThreads, (kNarrowBlocks<In, kColumns>))
    NarrowMatrixKernel(const __grid_constant__ MatrixParams params) {
  using Rows = NarrowRows<In, kColumns, kLog>;
  extern __shared__ __align__(16) unsigned char shared[];
  In* const tile = reinterpret_cast<In*>(shared);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * params.rows_per_block;
  const std::int64_t left = params.rows - first;
  const int rows = left < params.rows_per_block ? static_cast<int>(left) : params.rows_per_block;
  const auto scale = ScaleOf<float>(params);
  AskAhead<In>(params);
  BeginAccess(params);
  const bool whole = params.lengths == nullptr && Rows::Suits(scale);
  if constexpr (Rows::kVectors == 1) {
    if (whole) {
      // Blocks of a small tensor have one vector for each thread, or fewer.
      if (rows <= kMatrixThreads * Rows::kRows) {
        RunNarrowVectors<In, kColumns, kLog, 1>(params, first, rows, scale);
      } else {
        RunNarrowVectors<In, kColumns, kLog, NarrowEach(kColumns, sizeof(In))>(params, first, rows, scale);
      }
      Complete(params.completion);
      return;
    }
  }
  LoadTile(static_cast<const In*>(params.input) + first * kColumns, rows * kColumns, tile);
  if (Rows::kVectors > 1 && whole) {
    RunNarrowTile<In, kColumns, kLog>(tile, rows, scale);
  } else {
    for (int row = static_cast<int>(threadIdx.x); row < rows; row += kMatrixThreads) {
      const int valid = params.lengths == nullptr ? kColumns : static_cast<int>(ValidLength(params, first + row));
      TinyRow<In, kColumns, kLog>::Run(tile + row * kColumns, kColumns, valid, false, scale);
    }
  }
  __syncthreads();
  StoreTile(tile, rows * kColumns, static_cast<In*>(params.output) + first * kColumns);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
