#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/complete.cuh"
#include "kernels/cuda/blocks/dependent.cuh"
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

// Rows with gaps leave the sectors at their ends in part as they were, so the memory has to be read before it is
// written, which costs more than it should. A row's end (0 or 1) is therefore read early, with the other reads, to
// `nowhere`.
template <typename In>
__device__ __forceinline__ void FetchEnd(const MatrixParams& params, std::int64_t row, int end, void* nowhere) {
  constexpr int kSectorBytes = 32;
  const In* const output = static_cast<const In*>(params.output) + row * params.output_stride;
  const auto at = reinterpret_cast<std::uintptr_t>(output + (end == 0 ? 0 : params.cols));
  // Nor may the tensor begin or end within the word.
  if (at % kSectorBytes == 0 || row + end == 0 || row + end == params.rows) return;
  const auto word = (at - (end == 0 ? 0 : 1)) / sizeof(std::uint32_t) * sizeof(std::uint32_t);
  __pipeline_memcpy_async(nowhere, reinterpret_cast<const void*>(word), sizeof(std::uint32_t));
}

// What may be read around columns [column, column + n) of a row: nothing where there is no such row.
template <typename In>
__device__ __forceinline__ Around AroundOf(const MatrixParams& params, std::int64_t row, std::int64_t column,
                                           std::int64_t n) {
  const std::int64_t at = row * params.input_stride + column;
  return {at >= Element<In>::kVector && at < params.elements, params.elements - (at + n) >= Element<In>::kVector};
}

// The logarithms of the sums of a group's two rows, as Normalizer::LogOf() has them: every other lane takes one, as a
// logarithm takes as long as the results of several elements.
template <typename C>
__device__ __forceinline__ void PairLogs(const Stats<C> (&rows)[2], const Scale<C>& scale, Lanes lanes, C (&high)[2],
                                         C (&low)[2]) {
  const bool is_second = (lanes.lane & 1) != 0;
  const C max = is_second ? rows[1].max : rows[0].max;
  const C sum = is_second ? rows[1].sum : rows[0].sum;
  C mine_low;
  const C mine_high = Normalizer<C>::LogOf(scale, Stats<C>{max, sum}, &mine_low);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    high[r] = __shfl_sync(0xffffffffu, mine_high, r, lanes.count);
    low[r] = __shfl_sync(0xffffffffu, mine_low, r, lanes.count);
  }
}

template <typename In, int kSlots, bool kSkew, bool kLog, int kRows, bool kMixed = false>
__global__ void __launch_bounds__(kMatrixThreads) SmallMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  // Several rows at a time leave no registers for it.
  if constexpr (kRows == 1) AskAhead<In>(params);
  const Scale<C> scale = ScaleOf<C>(params);
  // Fewer lanes than a warp's hold at most three vectors each: see RowLanes().
  const int lane_count = kSlots > 3 ? 32 : params.lanes;
  const Lanes lanes{static_cast<int>(threadIdx.x) & (lane_count - 1), lane_count};
  constexpr bool kMayBeFew = kRows == 1 && kSlots <= kMostFewSlots;
  const int threads = kMayBeFew ? static_cast<int>(blockDim.x) : SmallThreads(sizeof(In), kSlots, kSkew, kLog);
  const int groups = threads / lane_count;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (groups * kRows) + threadIdx.x / lane_count;
  // Whether the exponentials stay in registers: not where that costs a block on each multiprocessor.
  constexpr bool kKeeps = !kMixed && (sizeof(In) != 2 || !kSkew || kRows == 1);
  // Whether lanes share the logarithms. Rows off the boundaries have no registers for it.
  constexpr bool kSharesLogs = kLog && !kSkew && kRows == 2 && sizeof(C) == 8;
  // Whether instructions bound the kernel, so that what all rows of so many slots have in common counts.
  constexpr bool kIsBusy = !kMixed && kSkew && sizeof(In) == 2 && kSlots == kChunkSlots;
  // Others have the registers to take care of short rows all at once, and lose 2 to 3 % otherwise.
  constexpr bool kInTurn = kMayBeFew;
  RowPart<In, kSlots, kSkew> part[kRows];
  int valid[kRows];
  BeginAccess(params);
  // Doubles would gain nothing.
  const bool fetches_ends = !kMixed && sizeof(In) < 8 && params.fetches_ends;
  if (fetches_ends && lanes.lane < 2) {
    __shared__ std::uint32_t nowhere;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * groups;
      if (row < params.rows) FetchEnd<In>(params, row, lanes.lane, &nowhere);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    // Lanes without a row go along with an empty one: the shuffles need whole warps.
    const std::int64_t row = first + r * groups;
    valid[r] = row < params.rows ? static_cast<int>(ValidLength(params, row)) : 0;
    const In* const input = static_cast<const In*>(params.input) + row * params.input_stride;
    part[r].template Load<kIsBusy ? kSlots - 1 : 0>(
        part[r].PlaceOf(input, valid[r], AroundOf<In>(params, row, 0, valid[r]), lanes), lanes);
  }
  if (fetches_ends) {
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }
  if constexpr (kSharesLogs) {
    Stats<C> stats[kRows];
    C high[kRows];
    C low[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      stats[r] = part[r].template FirstStats<kSlots, kLog, false, kInTurn>(valid[r], lanes, scale);
      part[r].Forget();
    }
    PairLogs(stats, scale, lanes, high, low);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * groups;
      if (row >= params.rows) continue;
      const Normalizer<C> normalize(scale, stats[r].max, high[r], low[r], valid[r] == 0);
      part[r].Store(static_cast<In*>(params.output) + row * params.output_stride, params.cols, valid[r], true, lanes,
                    normalize);
    }
  } else if constexpr (kMixed) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first + r * groups;
      const RowStats<C> stats = part[r].template FirstStats<kSlots, kLog, kSlots == 1, kInTurn>(valid[r], lanes, scale);
      part[r].Forget();
      const Normalizer<C> normalize(scale, stats, kLog, valid[r] == 0);
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
      if constexpr (kLog || !kKeeps) {
        const RowStats<C> stats =
            part[r].template FirstStats<kSlots, kLog, kSlots == 1, kInTurn>(valid[r], lanes, scale);
        part[r].Forget();
        if (row >= params.rows) continue;
        const Normalizer<C> normalize(scale, stats, kLog, valid[r] == 0);
        if constexpr (kIsBusy) {
          if (valid[r] == params.cols && normalize.IsPlain()) {
            part[r].StoreRow(output, valid[r], lanes, normalize);
            continue;
          }
        }
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
