#pragma once

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/complete.cuh"
#include "kernels/cuda/core/first_vector.cuh"
#include "kernels/cuda/small_rows/share.h"
#include "kernels/cuda/small_rows/small.cuh"

// Many small rows on 16-byte boundaries, of whole vectors, in registers. A thread stands for two of the lanes that
// would share the row elsewhere, threads.count apart, and adds up as they would.
namespace softmax::kernels::cuda {

// Of a row's vectors a thread holds every threads.count-th: the even ones of them are its first lane's.
template <typename In, int kVectors, bool kLog>
class ShareRow {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;

  // Threads without a row have no columns: the shuffles need whole warps.
  __device__ __forceinline__ ShareRow(const In* row, int cols, int valid, Lanes threads)
      : cols_(cols), valid_(valid), threads_(threads) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      v_[i] = NothingVector<In>();
      if (At(i) + kVector <= valid) v_[i] = *reinterpret_cast<const uint4*>(row + At(i));
    }
    const int cut = valid / kVector;
    if (valid % kVector == 0 || (cut & (threads.count - 1)) != threads.lane) return;
    const uint4 last = MaskFrom<In>(*reinterpret_cast<const uint4*>(row + cut * kVector), valid % kVector);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (At(i) == cut * kVector) v_[i] = last;
    }
  }

  // Stores the results of the row. A whole warp calls it.
  __device__ __forceinline__ void Run(const Scale<C>& scale, In* output) {
    const C max = LaneMax(LaneMaximum<In, kVectors, true>(v_, 0, threads_), threads_.count);
    const ExpBase<C> base(max, scale);
    if constexpr (kLog) {
      const double sum = Sum([&](int, int, C x) { return base.Exp(x, scale); });
      Stats<C> stats{max, static_cast<C>(LaneSum(sum, threads_.count) * base.correction)};
      const bool precise = valid_ != 0 && valid_ <= kPreciseColumns;
      if (__any_sync(0xffffffffu, precise)) {
        C x[kVector];
        Unpack<In>(v_[0], x);
        const C better = PreciseFirstSum<In>(x, max, threads_, scale);
        if (precise) stats.sum = better;
      }
#pragma unroll
      for (uint4& vector : v_) Opaque(vector);
      StoreLogs(Normalizer<C>(scale, stats, true, valid_ == 0), output);
    } else {
      C y[kVectors][kVector];
      const double sum = Sum([&](int i, int e, C x) { return y[i][e] = base.Exp(x, scale); });
      const Stats<C> stats{max, static_cast<C>(LaneSum(sum, threads_.count) * base.correction)};
      StoreProducts(Normalizer<C>(scale, stats, false, valid_ == 0), y, output);
    }
  }

 private:
  __device__ __forceinline__ int At(int i) const { return (i * threads_.count + threads_.lane) * kVector; }

  // The sum of the thread's exponential(i, e, x), in the order of its lanes.
  template <typename F>
  __device__ __forceinline__ double Sum(F exponential) const {
    double lane_sums[2];
#pragma unroll
    for (int lane = 0; lane < 2; ++lane) {
      C sums[kVector];
#pragma unroll
      for (int i = lane; i < kVectors; i += 2) {
        C x[kVector];
        Unpack<In>(v_[i], x);
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const C y = exponential(i, e, x[e]);
          sums[e] = i == lane ? y : sums[e] + y;
        }
      }
      lane_sums[lane] = PlacesSum(sums);
    }
    return PlacesSum(lane_sums);
  }

  // Stores what result(i) gives for each vector.
  template <typename F>
  __device__ __forceinline__ void Store(In* output, F result) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (At(i) < cols_) *reinterpret_cast<uint4*>(output + At(i)) = result(i);
    }
  }

  __device__ __forceinline__ void StoreLogs(const Normalizer<C>& normalize, In* output) const {
    if (sizeof(In) == 2 && valid_ == cols_ && normalize.IsPlain()) {
      Store(output, [&](int i) { return PlainLogResults<In>(v_[i], normalize); });
    } else {
      Store(output, [&](int i) { return VectorResults<In, true>(v_[i], valid_ - At(i), normalize); });
    }
  }

  __device__ __forceinline__ void StoreProducts(const Normalizer<C>& normalize, C (&y)[kVectors][kVector],
                                                In* output) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) y[i][e] *= normalize.factor;
    }
    if (valid_ != cols_) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          if (At(i) + e >= valid_) y[i][e] = normalize.masked;
        }
      }
    }
    Store(output, [&](int i) { return Pack<In>(y[i]); });
  }

  int cols_;
  int valid_;
  Lanes threads_;
  uint4 v_[kVectors];
};

// Blocks that a multiprocessor has to hold, so that enough bytes are on their way: the elements take their registers.
template <typename In, int kVectors>
constexpr int kShareBlocks = kVectors == 6                      ? 5
                             : sizeof(In) == 4 && kVectors == 4 ? kMostSmallBlocks
                             : sizeof(In) == 4 || kVectors == 4 ? 4
                                                                : 3;

template <typename In, int kVectors, bool kLog>
__global__ void __launch_bounds__(ShareThreads(kVectors), (kShareBlocks<In, kVectors>))
    ShareMatrixKernel(const __grid_constant__ MatrixParams params) {
  AskAhead<In>(params);
  const Scale<ComputeOf<In>> scale = ScaleOf<ComputeOf<In>>(params);
  const int log_threads = 31 - __clz(params.lanes);
  const Lanes threads{static_cast<int>(threadIdx.x) & (params.lanes - 1), params.lanes};
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (ShareThreads(kVectors) >> log_threads) +
                           static_cast<int>(threadIdx.x >> log_threads);
  BeginAccess(params);
  const bool present = row < params.rows;
  const int cols = present ? static_cast<int>(params.cols) : 0;
  const int valid = present ? static_cast<int>(ValidLength(params, row)) : 0;
  ShareRow<In, kVectors, kLog> share(static_cast<const In*>(params.input) + row * params.input_stride, cols, valid,
                                     threads);
  share.Run(scale, static_cast<In*>(params.output) + row * params.output_stride);
  Complete(params.completion);
}

template <typename In, int kVectors, bool kLog>
const void* ShareMatrix() {
  if constexpr (HasShare(sizeof(In), kVectors, kLog)) {
    return reinterpret_cast<const void*>(&ShareMatrixKernel<In, kVectors, kLog>);
  } else {
    return nullptr;
  }
}

template <typename In>
const ShareKernels& ShareKernelsOf() {
  static const ShareKernels kernels{{{ShareMatrix<In, 4, false>(), ShareMatrix<In, 4, true>()},
                                     {ShareMatrix<In, 5, false>(), ShareMatrix<In, 5, true>()},
                                     {ShareMatrix<In, 6, false>(), ShareMatrix<In, 6, true>()}}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
