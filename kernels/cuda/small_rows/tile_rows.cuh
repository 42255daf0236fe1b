#pragma once

#include "kernels/cuda/core/first_vector.cuh"
#include "kernels/cuda/large_rows/bulk.cuh"
#include "kernels/cuda/large_rows/bulk_cluster.cuh"
#include "kernels/cuda/large_rows/bulk_pair.cuh"
#include "kernels/cuda/large_rows/cluster.cuh"
#include "kernels/cuda/small_rows/tile.h"
#include "kernels/cuda/small_rows/tiny.cuh"

// Rows of a tile in shared memory with a few threads each. A thread stands for kShare of the lanes that would share the
// row elsewhere, threads.count apart, and adds up as they would. Elements move one at a time there, those of 16 bits
// two at a time: a warp's rows all begin with a word or all within one.
namespace softmax::kernels::cuda {

enum class TileForm {
  kSingles,
  kSpread,  // there is only one last vector, of which each of the first threads has an element, or two of 16 bits
  kPairs,   // every row begins with a word and has whole ones; of 16 bits
  kHalves,  // rows begin with a word or within one; of 16 bits
};

// Of a row's vectors, counted from its first column, a thread holds every threads.count-th: kVectors, of which all but
// the last are whole.
template <typename In, int kVectors, int kShare, bool kLog, TileForm kForm>
class TileRow {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr bool kSpread = kForm == TileForm::kSpread;
  static constexpr int kSure = (kVectors - 1) * kVector;
  static constexpr int kTail = !kSpread ? kVector : sizeof(In) == 2 ? 2 : 1;  // of the last vector
  static constexpr int kElements = kSure + kTail;

  // Replaces the row by its results, or has them beside it as numbers. A whole warp calls it; threads without a row,
  // which are not `present`, read what lies in its place. `within`: it begins within a word.
  template <typename Result>
  __device__ __forceinline__ static void Run(const In* row, Result* results, int cols, int valid, bool present,
                                             bool within, Lanes threads, const Scale<C>& scale) {
    const int first = threads.lane * kVector;
    const int step = threads.count * kVector;
    // What a thread's last vector, or its elements of it, is farther from `first` than those before.
    const int shift = kSpread ? threads.lane * kTail - first : 0;
    const int last = cols - first - shift - (kVectors - 1) * step;  // elements of the last vector
    const bool halves = kHasHalves && within;
    C x[kElements];
    Read(row + first, step, shift, halves, last, x);
    const auto mask = [&] {
      if (valid < cols) ForMasked(first, step, shift, valid, [&](int i) { x[i] = -Infinity<C>(); });
    };
    mask();
    const C max = LaneMax(Maximum(x), threads.count);
    const ExpBase<C> base(max, scale);
    base.SubtractFrom(x);
    const double sum = Exponentials(base, scale, threads, x);
    Stats<C> stats{max, static_cast<C>(LaneSum(sum, threads.count) * base.correction)};
    if constexpr (kLog) {
      if (!base.IsPlain()) {
        Read(row + first, step, shift, halves, last, x);
        mask();
      }
      const bool precise = valid <= kPreciseColumns;
      if (__any_sync(0xffffffffu, precise)) {
        const C better = PreciseFirstSum<In>(x, max, threads, scale);
        if (precise) stats.sum = better;
      }
    }
    const Normalizer<C> normalize(scale, stats, kLog, valid == 0);
    if constexpr (kLog) {
      normalize.template Apply<In, true>(x);
    } else {
#pragma unroll
      for (int i = 0; i < kElements; ++i) x[i] *= normalize.factor;
    }
    if (valid < cols) {
      ForMasked(first, step, shift, valid, [&](int i) { x[i] = normalize.masked; });
    }
    if (!present) return;
    if constexpr (std::is_same_v<Result, In>) {
      Write(results + first, step, shift, halves, last, x);
    } else {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        if (i < kSure || i - kSure < last) results[first + Place(i, step, shift)] = x[i];
      }
    }
  }

 private:
  static constexpr bool kHasHalves = sizeof(In) == 2 && kForm != TileForm::kPairs;

  __device__ __forceinline__ static int Place(int i, int step, int shift) {
    return i / kVector * step + i % kVector + (kSpread && i >= kSure ? shift : 0);
  }

  // Calls single(i) or pair(i) for all elements of the whole vectors, in which the first pair begins with element
  // kBegin.
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
  // The same for all elements that there are, of the last vector `last` at most.
  template <typename F, typename G>
  __device__ __forceinline__ static void ForEach(bool halves, int last, F single, G pair) {
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
      if (i - kSure >= last) continue;
      if constexpr (kEach == 2) {
        pair(i);
      } else {
        single(i);
      }
    }
  }

  __device__ __forceinline__ static void Read(const In* mine, int step, int shift, bool halves, int last,
                                              C (&x)[kElements]) {
#pragma unroll
    for (int i = kSure; i < kElements; ++i) x[i] = -Infinity<C>();
    ForEach(
        halves, last, [&](int i) { x[i] = ToCompute(mine[Place(i, step, shift)]); },
        [&](int i) {
          if constexpr (sizeof(In) == 2) LoadPair(mine + Place(i, step, shift), &x[i], &x[i + 1]);
        });
  }

  __device__ __forceinline__ static void Write(In* mine, int step, int shift, bool halves, int last,
                                               const C (&x)[kElements]) {
    ForEach(
        halves, last, [&](int i) { mine[Place(i, step, shift)] = FromCompute<In, C>(x[i]); },
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

  // The sum of the exponentials, which take the elements' places for softmax. Their base is subtracted already.
  __device__ __forceinline__ static double Exponentials(const ExpBase<C>& base, const Scale<C>& scale, Lanes threads,
                                                        C (&x)[kElements]) {
    double lane_sums[kShare];
#pragma unroll
    for (int lane = 0; lane < kShare; ++lane) {
      C sums[kVector];
#pragma unroll
      for (int v = lane; v < kVectors; v += kShare) {
        if (kSpread && v == kVectors - 1) {
          C exps[kTail];
#pragma unroll
          for (int i = 0; i < kTail; ++i) {
            exps[i] = base.PlainExp(x[kSure + i], scale);
            if constexpr (!kLog) x[kSure + i] = exps[i];
          }
#pragma unroll
          for (int e = 0; e < kVector; ++e) {
            const C other = __shfl_sync(0xffffffffu, exps[e % kTail], e / kTail, threads.count);
            if (threads.lane == 0) sums[e] += other;
          }
          break;
        }
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const C exp = base.PlainExp(x[v * kVector + e], scale);
          if constexpr (!kLog) x[v * kVector + e] = exp;
          sums[e] = v == lane ? exp : sums[e] + exp;
        }
      }
      lane_sums[lane] = PlacesSum(sums);
    }
    return PlacesSum(lane_sums);
  }
};

// Blocks that a multiprocessor has to hold. fp32 log-softmax of five and six vectors was not measured with four.
template <typename In, int kVectors, bool kLog>
constexpr int kTileBlocks = sizeof(In) == 4 && kLog && (kVectors == 5 || kVectors == 6)
                                ? 3
                                : kTinyBlocks<In, kVectors * Element<In>::kVector>;

// kMixed: as in tiny.cuh.
template <typename In, int kVectors, int kShare, bool kLog, bool kMixed = false>
__global__ void __launch_bounds__(kMatrixThreads, (kTileBlocks<In, kVectors, kLog>))
    TileMatrixKernel(const __grid_constant__ MatrixParams params) {
  extern __shared__ __align__(16) unsigned char shared[];
  In* const tile = reinterpret_cast<In*>(shared);
  const auto cols = static_cast<int>(params.cols);
  const auto pitch = static_cast<int>(params.input_stride);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * params.rows_per_block;
  const std::int64_t left = params.rows - first;
  const int rows = left < params.rows_per_block ? static_cast<int>(left) : params.rows_per_block;
  AskAhead<In>(params);
  BeginAccess(params);
  if (params.fetches_ends) {
    In* const nowhere = tile + TileElements<In>(params.rows_per_block, pitch);
    for (int i = static_cast<int>(threadIdx.x); i < 2 * rows; i += kMatrixThreads) {
      FetchEnd<In>(params, first + i / 2, i % 2, nowhere);
    }
  }
  const Scale<ComputeOf<In>> scale = ScaleOf<ComputeOf<In>>(params);
  const Lanes threads{static_cast<int>(threadIdx.x) & (params.lanes - 1), params.lanes};
  const int groups = kMatrixThreads / params.lanes;
  const int group = static_cast<int>(threadIdx.x) / params.lanes;
  // Odd rows of 16 bits begin half a word apart: with only every other one in a warp all of its rows begin alike.
  const bool is_odd = sizeof(In) == 2 && pitch % 2 != 0;
  const int own = !is_odd ? group : group < groups / 2 ? 2 * group : 2 * group - groups + 1;
  const int rest = cols - (kVectors - 1) * threads.count * Element<In>::kVector;
  constexpr TileForm kUsual = sizeof(In) == 4 ? TileForm::kSingles : TileForm::kHalves;
  constexpr TileForm kPairs = sizeof(In) == 4 ? TileForm::kSingles : TileForm::kPairs;
  const bool is_spread = rest <= Element<In>::kVector && threads.count >= 4;
  const bool in_pairs = sizeof(In) == 2 && (cols | pitch) % 2 == 0;
  const bool within = own * pitch % 2 != 0;  // as are all rows of the thread, of which `groups` is even
  LoadTile(static_cast<const In*>(params.input) + first * pitch, (rows - 1) * pitch + cols, tile);
  for (int row = own, end = 0; end < rows; row += groups, end += groups) {
    In* const at = tile + row * pitch;
    using Result = std::conditional_t<kMixed, float, In>;
    Result* results;
    if constexpr (kMixed) {
      results = NumbersOf(tile, params) + row * cols;
    } else {
      results = at;
    }
    const bool present = row < rows;
    // Threads without a row want no care.
    const int valid = !present                    ? kManyColumns
                      : params.lengths == nullptr ? cols
                                                  : static_cast<int>(ValidLength(params, first + row));
    if (is_spread) {
      TileRow<In, kVectors, kShare, kLog, TileForm::kSpread>::Run(at, results, cols, valid, present, within, threads,
                                                                  scale);
    } else if (in_pairs) {
      TileRow<In, kVectors, kShare, kLog, kPairs>::Run(at, results, cols, valid, present, within, threads, scale);
    } else {
      TileRow<In, kVectors, kShare, kLog, kUsual>::Run(at, results, cols, valid, present, within, threads, scale);
    }
  }
  __syncthreads();
  In* const output = static_cast<In*>(params.output) + first * params.output_stride;
  if (kMixed || (sizeof(In) == 4 && params.output_type != DataType::kFloat32)) {
    StoreNumbers<In>(params, NumbersOf(tile, params), rows * cols, first * cols);
  } else if (params.output_stride != cols || pitch != cols) {
    StoreRows(tile, rows, cols, pitch, output, params.output_stride);
  } else {
    StoreTile(tile, rows * cols, output);
  }
  Complete(params.completion);
}

template <typename In, int kVectors, int kShare, bool kLog>
const void* TileMatrix() {
  if constexpr (HasTileKernel(sizeof(In), kVectors, kShare, kLog)) {
    return reinterpret_cast<const void*>(&TileMatrixKernel<In, kVectors, kShare, kLog>);
  } else {
    return nullptr;
  }
}

template <typename In, int kVectors, bool kLog>
const void* MixedTile() {
  if constexpr (sizeof(In) == 2) {
    return reinterpret_cast<const void*>(&TileMatrixKernel<In, kVectors, 2, kLog, true>);
  } else {
    return nullptr;
  }
}

template <typename In, int kColumns, bool kLog>
const void* MixedTiny() {
  if constexpr (sizeof(In) == 2) {
    return reinterpret_cast<const void*>(&TinyMatrixKernel<In, kColumns, kLog, true>);
  } else {
    return nullptr;
  }
}

template <typename In, bool kLog>
const void* BulkPair() {
  if constexpr (sizeof(In) == 2) {
    return reinterpret_cast<const void*>(&BulkPairMatrixKernel<In, kLog>);
  } else {
    return nullptr;
  }
}

template <typename In, bool kSkew, bool kLog>
const void* BulkCluster() {
  constexpr bool kAny = kSkew || sizeof(In) == 4;
  return reinterpret_cast<const void*>(&BulkClusterMatrixKernel<In, kAny, kLog>);
}

template <typename In, bool kLog>
const void* Cluster() {
  return reinterpret_cast<const void*>(&ClusterMatrixKernel<In, kLog>);
}

template <typename In>
const TileKernels& TileKernelsOf() {
  if constexpr (sizeof(In) == 8) {
    static const TileKernels of_doubles{{},
                                        {},
                                        {},
                                        {},
                                        {reinterpret_cast<const void*>(&BulkMatrixKernel<In, false>),
                                         reinterpret_cast<const void*>(&BulkMatrixKernel<In, true>)},
                                        {},
                                        {},
                                        {}};
    return of_doubles;
  } else {
#define SOFTMAX_TILE(vectors, share) \
  { TileMatrix<In, vectors, share, false>(), TileMatrix<In, vectors, share, true>() }
#define SOFTMAX_TILES(share)                                                                        \
  {                                                                                                 \
    SOFTMAX_TILE(3, share), SOFTMAX_TILE(4, share), SOFTMAX_TILE(5, share), SOFTMAX_TILE(6, share), \
        SOFTMAX_TILE(7, share), SOFTMAX_TILE(8, share)                                              \
  }
#define SOFTMAX_BY_LOG(kernel, size) \
  { kernel<In, size, false>(), kernel<In, size, true>() }
    static const TileKernels kernels{
        {SOFTMAX_TILES(1), SOFTMAX_TILES(2)},
        {{}, SOFTMAX_BY_LOG(MixedTile, 4), SOFTMAX_BY_LOG(MixedTile, 5), SOFTMAX_BY_LOG(MixedTile, 6)},
        SOFTMAX_BY_LOG(MixedTiny, 12),
        {{},
         SOFTMAX_BY_LOG(MixedTiny, 16),
         SOFTMAX_BY_LOG(MixedTiny, 24),
         SOFTMAX_BY_LOG(MixedTiny, 32),
         SOFTMAX_BY_LOG(MixedTiny, 40),
         SOFTMAX_BY_LOG(MixedTiny, 48)},
        {reinterpret_cast<const void*>(&BulkMatrixKernel<In, false>),
         reinterpret_cast<const void*>(&BulkMatrixKernel<In, true>)},
        {BulkPair<In, false>(), BulkPair<In, true>()},
        {{BulkCluster<In, false, false>(), BulkCluster<In, false, true>()},
         {BulkCluster<In, true, false>(), BulkCluster<In, true, true>()}},
        {Cluster<In, false>(), Cluster<In, true>()}};
#undef SOFTMAX_BY_LOG
#undef SOFTMAX_TILES
#undef SOFTMAX_TILE
    return kernels;
  }
}

}  // namespace softmax::kernels::cuda
