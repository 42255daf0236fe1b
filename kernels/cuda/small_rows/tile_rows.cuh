#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/blocks/matrix.cuh"
#include "kernels/cuda/small_rows/tile.h"

// Rows of a tile in shared memory with a thread or a few each. A thread stands for several of the lanes that would
// share the row elsewhere, threads.count apart, and adds up as they would. Elements move one at a time there, those of
// 16 bits two at a time: a warp's rows all begin with a word or all within one.
namespace softmax::kernels::cuda {

// What the regimes whose threads stand for several lanes share.

// The sum of PreciseStats(), where x are a thread's first elements: the columns lie in the first one's or, of 32 bits,
// in the first two's. kAlone: all of the row are this thread's.
template <typename In, bool kAlone>
__device__ __forceinline__ ComputeOf<In> PreciseFirstSum(const ComputeOf<In>* x, ComputeOf<In> max, Lanes threads,
                                                         const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  constexpr int kVector = Element<In>::kVector;
  const C max_pre = MaxPre(max, scale);
  TwoPart<C> sums[kVector];
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    sums[e].high = scale.PreciseExp(x[e], max_pre);
    if constexpr (kVector < kPreciseColumns) {
      const C second =
          kAlone ? scale.PreciseExp(x[kVector + e], max_pre) : __shfl_down_sync(0xffffffffu, sums[e].high, 1);
      sums[e].Add(second, C(0));
    }
  }
  HalvingSum<kVector, 1>(sums);
  return __shfl_sync(0xffffffffu, sums[0].high + sums[0].low, 0, threads.count);
}

enum class TileForm {
  kSingles,
  kSpread,  // there is only one last vector, of which each of the first threads has an element, or two of 16 bits
  kPairs,   // every row begins with a word and has whole ones; of 16 bits
  kHalves,  // rows begin with a word or within one; of 16 bits
};

// Of a row's vectors, counted from its first column, a thread holds every threads.count-th; places that are not the
// row's are -inf, whose exponentials change no bit. kColumns: of the row, which a thread has for itself, at most
// kPreciseColumns; 0: as many as the size holds.
template <typename In, int kSize, TileForm kForm, int kColumns = 0>
class TileRow {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr TileSize kTile = TileSizeOf(kSize, sizeof(In));
  static constexpr bool kNarrow = kColumns > 0;
  static constexpr int kShare = kNarrow ? RowLanes(kColumns, sizeof(In)) : kTile.share;
  static constexpr bool kSpread = kForm == TileForm::kSpread;
  // A lone last vector that is spread is the one behind the whole ones.
  static constexpr int kVectors = kNarrow ? kShare : kSpread ? kTile.whole + 1 : kTile.vectors;
  static constexpr int kSure = kNarrow ? 0 : kTile.whole * kVector;
  static constexpr int kTail = kNarrow ? kColumns : kSpread ? 4 / sizeof(In) : (kVectors - kTile.whole) * kVector;
  static constexpr int kElements = kSure + kTail;

  // Replaces the row by its results, or has them as `numbers` beside it, if that is not nullptr. A whole warp calls it;
  // threads without a row, which are not `present`, read what lies in its place. `within`: it begins within a word.
  __device__ __forceinline__ static void Run(In* row, float* numbers, int cols, int valid, bool present, bool within,
                                             bool log, Lanes threads, const Scale<C>& scale) {
    const int first = threads.lane * kVector;
    const int step = threads.count * kVector;
    // What a thread's last vector, or its elements of it, is farther from `first` than those before.
    const int shift = kSpread ? threads.lane * kTail - first : 0;
    const int end = cols - first;
    const bool halves = kHasHalves && within;
    C x[kElements];
    Read(row + first, step, shift, halves, end, x);
    const auto mask = [&] {
      if (valid < cols) ForMasked(first, step, shift, valid, [&](int i) { x[i] = -Infinity<C>(); });
    };
    mask();
    if (kColumns == 1 && sizeof(In) == 2 && numbers == nullptr) {  // what rounding makes of it
      if (present) *row = FromCompute<In, C>(fabsf(x[0]) < Infinity<C>() ? (log ? C(0) : C(1)) : C(NAN));
      return;
    }
    const C max = LaneMax(Maximum(x), threads.count);
    const ExpBase<C> base(max, scale);
    RowStats<C> stats(max, C(0), C(0));
    if (kNarrow && log) {  // as PreciseStats() has them
      constexpr int kTerms = kColumns > 4 ? 8 : kColumns > 2 ? 4 : 2;
      TwoPart<C> sums[kTerms];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sums[c].high = NarrowExp<In, true>(x[c], max, scale);
      HalvingSum<kTerms, 1>(sums);
      stats = {max, sums[0].high, sums[0].low};
    } else {
      base.SubtractFrom(x);
      const double sum = Exponentials(base, scale, threads, !log, x);
      stats = Stats<C>{max, static_cast<C>(LaneSum(sum, threads.count) * base.correction)};
    }
    if (!kNarrow && log) {
      if (!base.IsPlain()) {
        Read(row + first, step, shift, halves, end, x);
        mask();
      }
      const bool precise = valid <= kPreciseColumns;
      if (__any_sync(0xffffffffu, precise)) {
        const C better = PreciseFirstSum<In, kTile.alone>(x, max, threads, scale);
        if (precise) stats.sum = better;
      }
    }
    const Normalizer<C> normalize(scale, stats, log, valid == 0);
    if (log) {
      normalize.template Apply<In, true>(x);
    } else {
#pragma unroll
      for (int i = 0; i < kElements; ++i) x[i] *= normalize.factor;
    }
    if (valid < cols) ForMasked(first, step, shift, valid, [&](int i) { x[i] = normalize.masked; });
    if (!present) return;
    if (sizeof(In) == 4 || numbers == nullptr) {
      Write(row + first, step, shift, halves, end, x);
      return;
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int place = Place(i, step, shift);
      if (i < kSure || place < end) numbers[first + place] = x[i];
    }
  }

 private:
  static constexpr bool kHasHalves = sizeof(In) == 2 && kForm != TileForm::kPairs;

  __device__ __forceinline__ static int Place(int i, int step, int shift) {
    return i / kVector * step + i % kVector + (kSpread && i >= kSure ? shift : 0);
  }

  // Calls single(i) or pair(i) for all elements of the whole vectors, whose first pair begins with element kBegin.
  template <int kBegin, typename F, typename G>
  __device__ __forceinline__ static void ForWhole(F single, G pair) {
#pragma unroll
    for (int i = 0; i < kSure; ++i) {
      const int place = i % kVector;
      if (place < kBegin || (place == kVector - 1 && kBegin == 1)) {
        single(i);
      } else if (place % 2 == kBegin) {
        pair(i);
      }
    }
  }
  // The same for all elements that there are, whose places are below `end`.
  template <typename F, typename G>
  __device__ __forceinline__ static void ForEach(bool halves, int step, int shift, int end, F single, G pair) {
    if constexpr (kHasHalves) {
      if (halves) {
        ForWhole<1>(single, pair);
      } else {
        ForWhole<0>(single, pair);
      }
    } else if constexpr (kForm == TileForm::kPairs) {
      ForWhole<0>(single, pair);
    } else {
      ForWhole<kVector>(single, pair);
    }
    constexpr int kEach = kForm == TileForm::kPairs ? 2 : 1;
#pragma unroll
    for (int i = kSure; i < kElements; i += kEach) {
      if (Place(i, step, shift) >= end) continue;
      if constexpr (kEach == 2) {
        pair(i);
      } else {
        single(i);
      }
    }
  }

  __device__ __forceinline__ static void Read(const In* mine, int step, int shift, bool halves, int end,
                                              C (&x)[kElements]) {
#pragma unroll
    for (int i = kSure; i < kElements; ++i) x[i] = -Infinity<C>();
    ForEach(
        halves, step, shift, end, [&](int i) { x[i] = ToCompute(mine[Place(i, step, shift)]); },
        [&](int i) {
          if constexpr (sizeof(In) == 2) LoadPair(mine + Place(i, step, shift), &x[i], &x[i + 1]);
        });
  }

  __device__ __forceinline__ static void Write(In* mine, int step, int shift, bool halves, int end,
                                               const C (&x)[kElements]) {
    ForEach(
        halves, step, shift, end, [&](int i) { mine[Place(i, step, shift)] = FromCompute<In, C>(x[i]); },
        [&](int i) {
          if constexpr (sizeof(In) == 2) StorePair(mine + Place(i, step, shift), x[i], x[i + 1]);
        });
  }

  template <typename F>
  __device__ __forceinline__ static void ForMasked(int first, int step, int shift, int valid, F mask) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (first + Place(i, step, shift) >= valid) mask(i);
    }
  }

  __device__ __forceinline__ static C Maximum(const C (&x)[kElements]) {
    C max = x[0];
#pragma unroll
    for (int i = 1; i < kElements; ++i) max = fmax(max, x[i]);
    // fmax drops NaN, but not that of a lone first element.
    return max == max ? max : -Infinity<C>();
  }

  // The sum of the exponentials, which take the elements' places if they are kept. Their base is subtracted already.
  __device__ __forceinline__ static double Exponentials(const ExpBase<C>& base, const Scale<C>& scale, Lanes threads,
                                                        bool keeps, C (&x)[kElements]) {
    double lane_sums[kShare];
#pragma unroll
    for (int lane = 0; lane < kShare; ++lane) {
      C sums[kVector] = {};
#pragma unroll
      for (int v = lane; v < kVectors; v += kShare) {
        if (kSpread && v == kVectors - 1) {
          C exps[kTail];
#pragma unroll
          for (int i = 0; i < kTail; ++i) {
            exps[i] = base.PlainExp(x[kSure + i], scale);
            if (keeps) x[kSure + i] = exps[i];
          }
#pragma unroll
          for (int e = 0; e < kVector; ++e) {
            const C other = __shfl_sync(0xffffffffu, exps[e % kTail], e / kTail, threads.count);
            if (threads.lane == 0) sums[e] += other;
          }
          break;
        }
#pragma unroll
        for (int e = 0; e < kVector && v * kVector + e < kElements; ++e) {
          const C exp = base.PlainExp(x[v * kVector + e], scale);
          if (keeps) x[v * kVector + e] = exp;
          sums[e] = v == lane ? exp : sums[e] + exp;
        }
      }
      lane_sums[lane] = PlacesSum<(kNarrow ? kColumns : kVector)>(sums);
    }
    return PlacesSum(lane_sums);
  }
};

// How a tile comes to shared memory, as one stretch of vectors, and goes back.

// Copies `count` elements from a 16-byte boundary on to shared memory, for the whole block.
template <typename In>
__device__ __forceinline__ void LoadTile(const In* input, int count, In* tile) {
  constexpr int kVector = Element<In>::kVector;
  const int whole = count / kVector * kVector;
  for (int at = static_cast<int>(threadIdx.x) * kVector; at < whole; at += kMatrixThreads * kVector) {
    __pipeline_memcpy_async(tile + at, input + at, sizeof(uint4));
  }
  __pipeline_commit();
  const int last = whole + static_cast<int>(threadIdx.x);
  if (last < count) tile[last] = input[last];
  __pipeline_wait_prior(0);
  __syncthreads();
}

// Stores `count` elements of a tile from a 16-byte boundary on, for the whole block.
template <typename In>
__device__ __forceinline__ void StoreTile(const In* tile, int count, In* output) {
  constexpr int kVector = Element<In>::kVector;
  for (int at = static_cast<int>(threadIdx.x) * kVector; at < count; at += kMatrixThreads * kVector) {
    const uint4 y = *reinterpret_cast<const uint4*>(tile + at);
    if (at + kVector <= count) {
      *reinterpret_cast<uint4*>(output + at) = y;
    } else {
      StoreRange(output + at, y, 0, count - at);
    }
  }
}

// The same of numbers, as elements of the launch's type, which is not In. `first`: the tile's place in the output.
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

// What a tile takes in shared memory.
template <typename In>
__device__ __forceinline__ int TileElements(int rows, int pitch) {
  constexpr int kVector = Element<In>::kVector;
  return (rows * pitch + kVector - 1) / kVector * kVector;
}
// Where the results of a tile are kept as numbers.
template <typename In>
__device__ __forceinline__ float* NumbersOf(In* tile, const MatrixParams& params) {
  const auto cols = static_cast<int>(params.cols);
  return reinterpret_cast<float*>(sizeof(In) == 4 ? tile : tile + TileElements<In>(params.rows_per_block, cols));
}

// Calls f with the number of columns as a constant, if it is one from kColumns to kPreciseColumns.
template <int kColumns, typename F>
__device__ __forceinline__ void ForColumns(int cols, F f) {
  if constexpr (kColumns <= kPreciseColumns) {
    if (cols == kColumns) return f(std::integral_constant<int, kColumns>());
    ForColumns<kColumns + 1>(cols, f);
  }
}

// Blocks that a multiprocessor has to hold, at most.
#if __CUDA_ARCH__ == 750
constexpr int kMostSmallBlocks = 4;  // its multiprocessors hold 1024 threads
#else
constexpr int kMostSmallBlocks = 5;
#endif

// Blocks that a multiprocessor has to hold, so that enough bytes are on their way: the columns take their registers.
template <typename In, int kSize>
constexpr int TileBlocks() {
  constexpr int kColumns = TileSizeOf(kSize, sizeof(In)).vectors * Element<In>::kVector;
  return kColumns <= 16 ? kMostSmallBlocks : kColumns <= 32 ? 4 : kColumns <= 48 ? 3 : 2;
}

// Results of another type than the input's are kept as numbers until they are stored: those of fp32 take the elements'
// places, those of 16 bits lie behind them.
template <typename In, int kSize>
__global__ void __launch_bounds__(kMatrixThreads, (TileBlocks<In, kSize>()))
    TileMatrixKernel(const __grid_constant__ MatrixParams params) {
  extern __shared__ __align__(16) unsigned char shared[];
  In* const tile = reinterpret_cast<In*>(shared);
  const auto cols = static_cast<int>(params.cols);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * params.rows_per_block;
  const std::int64_t left = params.rows - first;
  const int rows = left < params.rows_per_block ? static_cast<int>(left) : params.rows_per_block;
  const bool is_mixed = params.output_type != kTypeOf<In>;
  AskAhead<In>(params);
  BeginAccess(params);
  const Scale<ComputeOf<In>> scale = ScaleOf<ComputeOf<In>>(params);
  const Lanes threads{static_cast<int>(threadIdx.x) & (params.lanes - 1), params.lanes};
  const int groups = kMatrixThreads / params.lanes;
  const int group = static_cast<int>(threadIdx.x) / params.lanes;
  // Odd rows of 16 bits begin half a word apart: with only every other one in a warp all of its rows begin alike.
  const bool is_odd = sizeof(In) == 2 && cols % 2 != 0;
  const int own = !is_odd ? group : group < groups / 2 ? 2 * group : 2 * group - groups + 1;
  constexpr TileSize kTile = TileSizeOf(kSize, sizeof(In));
  const int rest = cols - kTile.whole * threads.count * Element<In>::kVector;
  constexpr TileForm kUsual = sizeof(In) == 4 ? TileForm::kSingles : TileForm::kHalves;
  constexpr TileForm kPairs = sizeof(In) == 4 ? TileForm::kSingles : TileForm::kPairs;
  const bool is_spread = !kTile.alone && rest > 0 && rest <= Element<In>::kVector && threads.count >= 4;
  LoadTile(static_cast<const In*>(params.input) + first * cols, rows * cols, tile);
  for (int row = own, end = 0; end < rows; row += groups, end += groups) {
    const bool present = row < rows;
    // Threads without a row want no care, and read another's.
    const int place = present || !kTile.alone ? row : 0;
    const bool within = place * cols % 2 != 0;
    In* const at = tile + place * cols;
    float* const numbers = is_mixed && sizeof(In) == 2 ? NumbersOf(tile, params) + place * cols : nullptr;
    const int valid = !present                    ? kManyColumns
                      : params.lengths == nullptr ? cols
                                                  : static_cast<int>(ValidLength(params, first + row));
    const auto run = [&](auto form) {
      TileRow<In, kSize, form()>::Run(at, numbers, cols, valid, present, within, params.log, threads, scale);
    };
    if (kSize == 0 && cols <= kPreciseColumns) {
      ForColumns<kSize == 0 ? 1 : kManyColumns>(cols, [&](auto columns) {
        using Row = TileRow<In, kSize, columns() % 2 == 0 ? kPairs : kUsual, columns()>;
        Row::Run(at, numbers, columns(), valid, present, false, params.log, Lanes{0, 1}, scale);
      });
    } else if (sizeof(In) == 2 && cols % 2 == 0 && !is_spread) {
      run(std::integral_constant<TileForm, kPairs>());
    } else if (kTile.alone || !is_spread) {
      run(std::integral_constant<TileForm, kUsual>());
    } else {
      run(std::integral_constant < TileForm, kTile.alone ? kUsual : TileForm::kSpread > ());
    }
  }
  __syncthreads();
  In* const output = static_cast<In*>(params.output) + first * cols;
  if (is_mixed) {
    StoreNumbers<In>(params, NumbersOf(tile, params), rows * cols, first * cols);
  } else {
    StoreTile(tile, rows * cols, output);
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
