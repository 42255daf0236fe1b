#pragma once

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/core/row_part.cuh"
#include "kernels/cuda/rows/matrix.h"

// Small rows of one matrix: a group of lanes per row, everything in registers. Each group takes kRows rows at a time,
// so that narrow rows too have enough loads in flight.
namespace softmax::kernels::cuda {

// Blocks of other small rows' kernels that a multiprocessor has to hold, at most.
#if __CUDA_ARCH__ == 750
constexpr int kMostSmallBlocks = 4;  // its multiprocessors hold 1024 threads
#else
constexpr int kMostSmallBlocks = 5;
#endif

template <typename C>
__device__ __forceinline__ Scale<C> ScaleOf(const MatrixParams& params) {
  if constexpr (sizeof(C) == 8) {
    return Scale<C>(params.scale_double);
  } else {
    return Scale<C>(params.scale_float);
  }
}

// By every block before its first access to memory that others may write or read.
__device__ __forceinline__ void BeginAccess(const MatrixParams& params) {
  WaitForEarlierLaunches();
  if (params.next_early) AllowNextLaunch();
}

__device__ __forceinline__ std::int64_t ValidLength(const MatrixParams& params, std::int64_t row) {
  if (params.lengths == nullptr) return params.cols;
  const std::int64_t length = params.lengths[row];
  return length < params.cols ? length : params.cols;
}

// Calls f with the beginning of an output row: of In's type, or (kMixed) of the other that the launch names.
template <typename In, bool kMixed, typename F>
__device__ __forceinline__ void ForOutput(const MatrixParams& params, std::int64_t row, F f) {
  ForOutputType<In, !kMixed>(params.output_type, [&](auto* type) {
    f(static_cast<decltype(type)>(params.output) + row * params.output_stride);
  });
}

// What may be read around columns [column, column + n) of a row: nothing where there is no such row.
template <typename In>
__device__ __forceinline__ Around AroundOf(const MatrixParams& params, std::int64_t row, std::int64_t column,
                                           std::int64_t n) {
  const std::int64_t at = row * params.input_stride + column;
  return {at >= Element<In>::kVector && at < params.elements, params.elements - (at + n) >= Element<In>::kVector};
}

// Whether a kernel is for log-softmax, or for whatever its launch says.
enum class LogForm { kNo, kYes, kAny };

template <typename In, int kSlots, bool kSkew, LogForm kLogForm, int kRows, bool kMixed>
__global__ void __launch_bounds__(kMatrixThreads) SmallMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  const bool log = kLogForm == LogForm::kAny ? params.log : kLogForm == LogForm::kYes;
  // Several rows at a time leave no registers for it.
  if constexpr (kRows == 1) AskAhead<In>(params);
  const Scale<C> scale = ScaleOf<C>(params);
  // Fewer lanes than a warp's hold at most three vectors each: see RowLanes().
  const int lane_count = kSlots > 4 ? 32 : params.lanes;
  const Lanes lanes{static_cast<int>(threadIdx.x) & (lane_count - 1), lane_count};
  constexpr bool kMayBeFew = kRows == 1 && kSlots <= kMostFewSlots;
  const int threads = kMayBeFew ? static_cast<int>(blockDim.x) : SmallThreads(sizeof(In), kSlots, kSkew, log);
  const int groups = threads / lane_count;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (groups * kRows) + threadIdx.x / lane_count;
  // Whether the exponentials stay in registers: not where that costs a block on each multiprocessor.
  constexpr bool kKeeps = !kMixed && (sizeof(In) != 2 || !kSkew || kRows == 1);
  RowPart<In, kSlots, kSkew> part[kRows];
  int valid[kRows];
  BeginAccess(params);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    // Lanes without a row go along with an empty one: the shuffles need whole warps.
    const std::int64_t row = first + r * groups;
    valid[r] = row < params.rows ? static_cast<int>(ValidLength(params, row)) : 0;
    const In* const input = static_cast<const In*>(params.input) + row * params.input_stride;
    part[r].Load(part[r].PlaceOf(input, valid[r], AroundOf<In>(params, row, 0, valid[r]), lanes), lanes);
  }
  if constexpr (kMixed) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * groups;
      const int careful = log ? valid[r] : kManyColumns;
      const RowStats<C> stats = part[r].template FirstStats<kSlots, kSlots == 1>(careful, lanes, scale);
      part[r].Forget();
      const Normalizer<C> normalize(scale, stats, log, valid[r] == 0);
      const int cols = row < params.rows ? static_cast<int>(params.cols) : 0;
      ForOutput<In, true>(params, row, [&](auto* output) {
        part[r].template StoreMixed<true>(output, cols, valid[r], true, lanes, normalize);
      });
    }
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * groups;
      In* const output = static_cast<In*>(params.output) + row * params.output_stride;
      if (log || !kKeeps) {
        const int careful = log ? valid[r] : kManyColumns;
        const RowStats<C> stats = part[r].template FirstStats<kSlots, kSlots == 1>(careful, lanes, scale);
        part[r].Forget();
        if (row >= params.rows) continue;
        const Normalizer<C> normalize(scale, stats, log, valid[r] == 0);
        part[r].Store(output, params.cols, valid[r], true, lanes, normalize);
      } else {
        C y[RowPart<In, kSlots, kSkew>::kCount][Element<In>::kVector];
        const Stats<C> stats = part[r].Exponentials(lanes, scale, y);
        if (row >= params.rows) continue;
        const Normalizer<C> normalize(scale, stats, false, valid[r] == 0);
        part[r].StoreProducts(output, params.cols, valid[r], lanes, normalize, y);
      }
    }
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
