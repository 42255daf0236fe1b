#pragma once

#include "kernels/cuda/blocks/again.cuh"
#include "kernels/cuda/large_rows/bulk.cuh"

// Rows of 16 bits that miss the boundaries, of a chunk and little more: a warp for each, copied there and back in bulk.
// The only work that lanes have beside the arithmetic is a row's first and last vector.
namespace softmax::kernels::cuda {

// By a whole warp: the statistics of a row.
template <typename In, bool kLog>
__device__ __forceinline__ Stats<float> BulkPairStats(const BulkPart<In, true, kLog>& row, int valid,
                                                      const Scale<float>& scale) {
  constexpr int kSecondSlots = kBulkPairSlots - kChunkSlots;
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  uint4 v[kBulkPairSlots];
  row.Load(v);
  uint4 first[kChunkSlots];
#pragma unroll
  for (int j = 0; j < kChunkSlots; ++j) first[j] = v[j];
  uint4 rest[kSecondSlots];
#pragma unroll
  for (int j = 0; j < kSecondSlots; ++j) rest[j] = v[kChunkSlots + j];
  Stats<float> stats = VectorsStats<In, kChunkSlots, true>(first, row.skip(), lanes, scale);
  const Stats<float> second = VectorsStats<In, kSecondSlots, true>(rest, row.skip(), lanes, scale);
  // The extra care of log-softmax comes after both chunks, which can then wait at the same time.
  if (kLog && valid <= kPreciseColumns) {
    uint4 head[1];
    row.Load(head);
    stats = PreciseStats<In, false>(head, lanes, scale);
  }
  // As FoldFlat() folds two.
  return CombineLanes((lanes.lane & 1) == 0 ? stats : second, scale, 2);
}

// Blocks that a multiprocessor has to hold: 48 registers are left to a thread of softmax, or 64.
template <bool kLog>
constexpr int kBulkPairBlocks = BlocksThatFit(32 * kBulkPairWarps, (kLog ? 32 : 40) / kBulkPairWarps);

template <typename In, bool kLog>
__global__ void __launch_bounds__(32 * kBulkPairWarps, kBulkPairBlocks<kLog>)
    BulkPairMatrixKernel(const __grid_constant__ MatrixParams params) {
  using Row = BulkPart<In, true, kLog>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ std::uint64_t barriers[kBulkPairWarps];
  const Scale<float> scale = ScaleOf<float>(params);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kBulkPairWarps + warp;
  AskAhead<In>(params);
  BeginAccess(params);
  if (row < params.rows) {
    const auto valid = static_cast<int>(ValidLength(params, row));
    const Row bulk(static_cast<const In*>(params.input) + row * params.input_stride, valid, valid, true,
                   reinterpret_cast<uint4*>(dynamic) + warp * kBulkPairVectors);
    if (lane == 0) StartBarrier(&barriers[warp]);
    bulk.Start(AroundOf<In>(params, row, 0, valid), 0, kBulkPairSlots * 32 + Row::kBehind, &barriers[warp]);
    bulk.FillBehind(kBulkPairSlots);
    __syncwarp();
    WaitForBulkLoad(&barriers[warp]);
    bulk.FillEnd();
    __syncwarp();
    const Stats<float> stats = BulkPairStats<In, kLog>(bulk, valid, scale);
    const Normalizer<float> normalize(scale, stats, kLog, valid == 0);
    const auto cols = static_cast<int>(params.cols);
    const int vectors = bulk.Vectors(cols);
    __syncwarp();
    bulk.template ReplaceAll<kBulkPairSlots>(vectors, cols, valid, normalize);
    bulk.Store(static_cast<In*>(params.output) + row * params.output_stride, 0, vectors, cols, true);
  }
  EndBulkStores(params.completion);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
