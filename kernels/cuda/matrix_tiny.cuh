#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/complete.cuh"
#include "kernels/cuda/matrix_small.cuh"

// Dense rows of a few vectors: a block moves a tile of rows as one stretch of aligned vectors, and in shared memory
// every thread works on whole rows alone. The sums are those of the lanes that would share such a row elsewhere.
namespace softmax::kernels::cuda {

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

template <typename In, int kColumns, bool kLog>
class TinyRow {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kVectors = (kColumns + kVector - 1) / kVector;
  static constexpr int kPlaces = kColumns < kVector ? kColumns : kVector;  // the others of a vector are empty
  static constexpr int kSure = kColumns < kVector ? kColumns / 2 : kColumns - kVector;  // columns of every such row
  static constexpr int kLanes = RowLanes(kColumns, sizeof(In));
  static constexpr int kSlots = (kVectors + kLanes - 1) / kLanes;

  // Replaces the row by its results.
  __device__ __forceinline__ static void Run(In* row, int cols, int valid, const Scale<C>& scale) {
    C x[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      x[c] = c < kSure || c < cols ? ToCompute(row[c]) : -Infinity<C>();
    }
    if (valid < cols) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (c >= valid) x[c] = -Infinity<C>();
      }
    }
    const C max = Maximum(x);
    if constexpr (kLog) {
      Stats<C> stats{max, C(0)};
      if (kColumns <= kPreciseColumns || valid <= kPreciseColumns) {
        stats.sum = PreciseSum(x, max, scale);
      } else {
        stats.sum = static_cast<C>(Exponentials(x, max, scale, nullptr) * ExpBase<C>(max, scale).correction);
      }
      const Normalizer<C> normalize(scale, stats, true, valid == 0);
      normalize.template Apply<In, true>(x);
      Write(row, cols, valid, normalize.masked, x);
    } else {
      C y[kColumns];
      const ExpBase<C> base(max, scale);
      const Stats<C> stats{max, static_cast<C>(Exponentials(x, max, scale, y) * base.correction)};
      const Normalizer<C> normalize(scale, stats, false, valid == 0);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) y[c] *= normalize.factor;
      Write(row, cols, valid, normalize.masked, y);
    }
  }

 private:
  __device__ __forceinline__ static C Maximum(const C (&x)[kColumns]) {
    C max = x[0];
#pragma unroll
    for (int c = 1; c < kColumns; ++c) max = fmax(max, x[c]);
    // fmax drops NaN, but not that of a lone first element.
    return max == max ? max : -Infinity<C>();
  }

  // The exponentials, kept in `y` unless it is null, and their sum.
  __device__ __forceinline__ static double Exponentials(const C (&x)[kColumns], C max, const Scale<C>& scale, C* y) {
    const ExpBase<C> base(max, scale);
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
          const C exp = base.Exp(x[vector * kVector + e], scale);
          if (y != nullptr) y[vector * kVector + e] = exp;
          sums[e] = j == 0 ? exp : sums[e] + exp;
        }
      }
      lane_sums[lane] = PlacesSum(sums);
    }
    return PlacesSum(lane_sums);
  }

  // See PreciseStats.
  __device__ __forceinline__ static C PreciseSum(const C (&x)[kColumns], C max, const Scale<C>& scale) {
    constexpr int kTerms = kColumns > 4 ? 8 : kColumns > 2 ? 4 : 2;
    const C max_pre = MaxPre(max, scale);
    TwoPart<C> sums[kTerms];
#pragma unroll
    for (int c = 0; c < kColumns && c < kPreciseColumns; ++c) sums[c].high = scale.PreciseExp(x[c], max_pre);
    HalvingSum<kTerms, 1>(sums);
    return sums[0].high + sums[0].low;
  }

  __device__ __forceinline__ static void Write(In* row, int cols, int valid, C masked, const C (&y)[kColumns]) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (c < kSure || c < cols) row[c] = FromCompute<In, C>(c < valid ? y[c] : masked);
    }
  }
};

#if __CUDA_ARCH__ == 750
constexpr int kMostTinyBlocks = 4;  // its multiprocessors hold 1024 threads
#else
constexpr int kMostTinyBlocks = 5;
#endif

// Blocks that a multiprocessor has to hold, so that enough bytes are on their way: the columns take their registers.
template <typename In, int kColumns>
constexpr int kTinyBlocks = sizeof(In) == 8  ? 0
                            : kColumns <= 16 ? kMostTinyBlocks
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
  BeginAccess(params);
  LoadTile(static_cast<const In*>(params.input) + first * cols, rows * cols, tile);
  for (int row = static_cast<int>(threadIdx.x); row < rows; row += kMatrixThreads) {
    const int valid = params.lengths == nullptr ? cols : static_cast<int>(ValidLength(params, first + row));
    TinyRow<In, kColumns, kLog>::Run(tile + row * cols, cols, valid, scale);
  }
  __syncthreads();
  StoreTile(tile, rows * cols, static_cast<In*>(params.output) + first * cols);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
