#pragma once

#include <algorithm>

#include "kernels/cuda/again.cuh"
#include "kernels/cuda/matrix_bulk.cuh"

// Rows of at most kSlots slots that miss the boundaries, a warp for each, copied there and back in bulk: the only work
// that lanes have beside the arithmetic is a row's first and last vector.
namespace softmax::kernels::cuda {

// By a whole warp: the statistics of a row, of one chunk or of little more.
template <typename In, int kSlots, bool kLog>
__device__ __forceinline__ RowStats<ComputeOf<In>> BulkRowStats(const BulkPart<In, true, kLog>& row, int valid,
                                                                const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  constexpr int kFirst = std::min(kSlots, SmallSlots(sizeof(In)));
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  uint4 v[kSlots];
  row.Load(v);
  uint4 first[kFirst];
#pragma unroll
  for (int j = 0; j < kFirst; ++j) first[j] = v[j];
  if constexpr (kSlots == kFirst) {
    return FirstVectorsStats<In, kFirst, true, kLog, false>(first, row.skip(), valid, lanes, scale);
  } else {
    uint4 rest[kSlots - kFirst];
#pragma unroll
    for (int j = kFirst; j < kSlots; ++j) rest[j - kFirst] = v[j];
    Stats<C> stats = VectorsStats<In, kFirst, true>(first, row.skip(), lanes, scale);
    const Stats<C> second = VectorsStats<In, kSlots - kFirst, true>(rest, row.skip(), lanes, scale);
    // The extra care of log-softmax comes after both chunks, which can then wait at the same time.
    if (kLog && valid <= kPreciseColumns) {
      uint4 head[1];
      row.Load(head);
      stats = PreciseStats<In, false>(head, lanes, scale);
    }
    // As FoldFlat() folds two.
    return CombineLanes((lanes.lane & 1) == 0 ? stats : second, scale, 2);
  }
}

// Blocks that a multiprocessor has to hold: 48 registers are left to a thread of 16-bit softmax, or 64.
template <typename In, int kSlots, bool kLog>
constexpr int kBulkRowBlocks = BlocksThatFit(32 * BulkRowWarps(kSlots),
                                             (sizeof(In) == 2 && !kLog ? 40 : 32) / BulkRowWarps(kSlots));

template <typename In, int kSlots, bool kLog>
__global__ void __launch_bounds__(32 * BulkRowWarps(kSlots), (kBulkRowBlocks<In, kSlots, kLog>))
    BulkRowMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  using Row = BulkPart<In, true, kLog>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  constexpr int kWarps = BulkRowWarps(kSlots);
  __shared__ std::uint64_t barriers[kWarps];
  const Scale<C> scale = ScaleOf<C>(params);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
  AskAhead<In>(params);
  BeginAccess(params);
  if (row < params.rows) {
    const auto valid = static_cast<int>(ValidLength(params, row));
    const Row bulk(static_cast<const In*>(params.input) + row * params.input_stride, valid, valid, true,
                   reinterpret_cast<uint4*>(dynamic) + warp * BulkRowVectors(kSlots));
    if (lane == 0) StartBarrier(&barriers[warp]);
    bulk.Start(AroundOf<In>(params, row, 0, valid), 0, kSlots * 32 + Row::kBehind, &barriers[warp]);
    bulk.FillBehind(kSlots);
    __syncwarp();
    WaitForBulkLoad(&barriers[warp]);
    bulk.FillEnd();
    __syncwarp();
    const RowStats<C> stats = BulkRowStats<In, kSlots, kLog>(bulk, valid, scale);
    const Normalizer<C> normalize(scale, stats, kLog, valid == 0);
    const auto cols = static_cast<int>(params.cols);
    const int vectors = bulk.Vectors(cols);
    __syncwarp();
    bulk.template ReplaceAll<kSlots>(vectors, cols, valid, normalize);
    bulk.Store(static_cast<In*>(params.output) + row * params.output_stride, 0, vectors, cols, true);
  }
  EndBulkStores(params.completion);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
