#pragma once

#include "kernels/cuda/again.cuh"
#include "kernels/cuda/matrix_bulk.cuh"

// Rows of at most kSlots slots that miss the boundaries, a warp for each, copied there and back in bulk: the only work
// that lanes have beside the arithmetic is a row's first and last vector.
namespace softmax::kernels::cuda {

// Blocks that a multiprocessor has to hold: 48 registers are left to a thread of 16 bits, or 64.
template <typename In>
constexpr int kBulkRowBlocks = BlocksThatFit(kMatrixThreads, sizeof(In) == 2 ? 5 : 4);

template <typename In, int kSlots, bool kLog>
__global__ void __launch_bounds__(kMatrixThreads, kBulkRowBlocks<In>)
    BulkRowMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  using Row = BulkPart<In, true, kLog>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ std::uint64_t barriers[kBlockWarps];
  const Scale<C> scale = ScaleOf<C>(params);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kBlockWarps + warp;
  BeginAccess(params);
  if (row < params.rows) {
    const auto valid = static_cast<int>(ValidLength(params, row));
    const Row bulk(static_cast<const In*>(params.input) + row * params.input_stride, valid, valid, true,
                   reinterpret_cast<uint4*>(dynamic) + warp * BulkRowVectors(kSlots));
    bulk.Start(AroundOf<In>(params, row, 0, valid), 0, kSlots * 32, &barriers[warp]);
    bulk.FillBehind(kSlots);
    __syncwarp();
    WaitForBulkLoad(&barriers[warp]);
    bulk.FillEnd();
    __syncwarp();
    uint4 v[kSlots];
    bulk.Load(v);
    const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
    const RowStats<C> stats = FirstVectorsStats<In, kSlots, true, kLog, false>(v, bulk.skip(), valid, lanes, scale);
    const Normalizer<C> normalize(scale, stats, kLog, valid == 0);
    const auto cols = static_cast<int>(params.cols);
    const int vectors = bulk.Vectors(cols);
    __syncwarp();
    bulk.template ReplaceAll<kSlots>(vectors, valid, normalize);
    bulk.Store(static_cast<In*>(params.output) + row * params.output_stride, 0, vectors, cols, true);
  }
  EndBulkStores(params.completion);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
