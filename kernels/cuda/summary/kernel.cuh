#pragma once

#include "kernels/cuda/blocks/complete.cuh"
#include "kernels/cuda/summary/rows.cuh"
#include "kernels/cuda/summary/small.cuh"

namespace softmax::kernels::cuda {

// A function of its own, as the registers of small rows and of large ones together would not do.
template <typename In>
__device__ __noinline__ void RunSmallSummary(const DeviceSummary& segment, DataType output_type, std::int64_t item,
                                             const Scale<ComputeOf<In>>& scale) {
  constexpr int kSlots = SmallSlots(sizeof(In));
  // Empty slots add exact zeros to the sums, so the number compiled for does not show in the bits.
  if (segment.cols <= 2 * static_cast<int>(segment.lanes) * Element<In>::kVector) {
    SmallSummary<In, 2>(segment, output_type, scale).Run(item);
  } else {
    SmallSummary<In, kSlots>(segment, output_type, scale).Run(item);
  }
}

// Where the table is in the host's memory, of which each look costs a trip over the bus, a block takes neighbouring
// items. Otherwise each takes the next by a counter, so that the parts of a row are read at about the same time, and
// its last block finds them in the L2.
template <typename In>
__global__ void __launch_bounds__(kBlockThreads, sizeof(In) == 8 ? 2 : kSummaryBlocks)
    SummaryKernel(const __grid_constant__ SummaryParams params) {
  using S = Scale<ComputeOf<In>>;
  __shared__ __align__(16) unsigned char shared[sizeof(SummaryShared<In>)];
  __shared__ DeviceSummary segment;
  auto& rows = *reinterpret_cast<SummaryShared<In>*>(shared);
  __shared__ std::int64_t next;
  const bool is_table = params.table != nullptr;
  const bool is_one = params.items <= gridDim.x;  // for each block
  std::int64_t item = is_table ? blockIdx.x * params.items_per_block : blockIdx.x;
  const std::int64_t end = is_table ? min(item + params.items_per_block, params.items) : params.items;
  const DeviceSummary* const segments = is_table ? params.table : params.segments;
  std::uint32_t index = is_table && item < end ? params.block_first[blockIdx.x] : 0;
  bool is_new = true;
  while (item < end) {
    while (index + 1 < params.segment_count && segments[index + 1].first_item <= item) {
      ++index;
      is_new = true;
    }
    if (is_new) {
      constexpr int kWords = sizeof(DeviceSummary) / sizeof(std::uint32_t);
      if (threadIdx.x < kWords) {
        reinterpret_cast<std::uint32_t*>(&segment)[threadIdx.x] =
            reinterpret_cast<const std::uint32_t*>(segments + index)[threadIdx.x];
      }
      __syncthreads();
      is_new = false;
    }
    // By the last warp, which has least to do.
    if (threadIdx.x == kBlockThreads - 1) {
      next = is_one     ? end
             : is_table ? item + 1
                        : gridDim.x + std::int64_t{atomicAdd(params.counters + kItemsTaken, 1u)};
    }
    const S& scale = *reinterpret_cast<const S*>(segment.scale_parts);
    if (segment.part_chunks == 0) {
      RunSmallSummary<In>(segment, params.output_type, item - segment.first_item, scale);
    } else {
      SummaryRows<In>(params, segment, scale, rows).Run(item - segment.first_item);
    }
    __syncthreads();
    item = next;
    __syncthreads();  // before the next one is written, or another segment
  }
  if (!is_table && !is_one && threadIdx.x == kBlockThreads - 1) {
    __threadfence();
    if (atomicAdd(params.counters + kBlocksDone, 1u) + 1 == gridDim.x) {
      params.counters[kItemsTaken] = 0;
      params.counters[kBlocksDone] = 0;
    }
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
