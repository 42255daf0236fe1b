#pragma once

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/blocks/segment_walk.cuh"
#include "kernels/cuda/summary/rows.cuh"
#include "kernels/cuda/summary/warp.cuh"

namespace softmax::kernels::cuda {

// Calls run(item of its segment) with each of the block's items. `segment`: in shared memory, the item's;
// before_another(): before it changes. `first_of`: what tells a segment's first item.
template <typename Before, typename Run>
__device__ __forceinline__ void ForItems(const SummaryParams& params, std::int64_t DeviceSummary::*first_of,
                                         DeviceSummary& segment, Before before_another, Run run) {
  // Where the table is in the host's memory, of which each look costs a trip over the bus, neighbouring ones.
  const bool is_far = params.table != nullptr;
  const std::int64_t first = is_far ? blockIdx.x * params.items_per_block : blockIdx.x;
  const std::int64_t end = is_far ? min(first + params.items_per_block, params.items) : params.items;
  SegmentWalk<DeviceSummary> walk(is_far ? params.table : params.segments, params.segment_count, first_of, segment);
  for (std::int64_t item = first; item < end; item += is_far ? 1 : gridDim.x) {
    if (walk.MovesTo(item)) {
      before_another();
      walk.Load();
    }
    run(item - segment.*first_of);
  }
}

__device__ __forceinline__ DeviceSummary& TheSegment() {
  __shared__ __align__(16) unsigned char bytes[sizeof(DeviceSummary)];
  return *reinterpret_cast<DeviceSummary*>(bytes);
}

// Small rows, of which each is held by lanes of a warp.
template <typename In>
__global__ void __launch_bounds__(kBlockThreads, sizeof(In) == 8 ? 2 : kSmallSummaryBlocks)
    SmallSummaryKernel(const __grid_constant__ SummaryParams params) {
  constexpr int kWarpVector = 32 * Element<In>::kVector;
  DeviceSummary& segment = TheSegment();
  __shared__ __align__(16) unsigned char bytes[kBlockWarps * sizeof(WarpShared<In>)];
  WaitingRows<In> waiting(reinterpret_cast<WarpShared<In>*>(bytes)[threadIdx.x / 32], segment, params.output_type);
  const auto finish = [&] { waiting.Finish(); };
  ForItems(params, &DeviceSummary::first_item, segment, finish, [&](std::int64_t item) {
    // Empty slots add exact zeros to the sums, so the number compiled for does not show in the bits.
    if (segment.lanes < 32) {
      WarpSummary<In, 2>(segment, params.output_type, waiting).RunSeveral(item);
    } else if (segment.rows.cols <= 2 * kWarpVector) {
      WarpSummary<In, 2>(segment, params.output_type, waiting).Run(item);
    } else {
      WarpSummary<In, SmallSlots(sizeof(In))>(segment, params.output_type, waiting).Run(item);
    }
  });
  waiting.Finish();
  Complete(params.completion);
}

// All other rows: their chunks, a warp each,
template <typename In>
__global__ void __launch_bounds__(kBlockThreads, sizeof(In) == 8 ? 3 : kSummaryReadBlocks)
    SummaryReadKernel(const __grid_constant__ SummaryParams params) {
  DeviceSummary& segment = TheSegment();
  AllowNextLaunch();
  ForItems(
      params, &DeviceSummary::first_read, segment, [] {},
      [&](std::int64_t item) {
        const std::int64_t chunk = item * kBlockWarps + static_cast<int>(threadIdx.x) / 32;  // of all of the segment
        if (chunk >= segment.row_count * segment.chunks.value()) return;
        const int row = segment.chunks.Quotient(static_cast<int>(chunk));
        ReadChunk<In>(params.tables, segment, row, static_cast<int>(chunk) - row * segment.chunks.value());
      });
}
// and their results, a block a row.
template <typename In>
__global__ void __launch_bounds__(LargeRowThreads(sizeof(In)), 1)
    SummaryRowKernel(const __grid_constant__ SummaryParams params) {
  SummaryShared<In>& shared = TheShared<In>();
  if (threadIdx.x == 0) {  // before the barrier of the first segment
    shared.tables = params.tables;
    shared.output_type = params.output_type;
  }
  ForItems(
      params, &DeviceSummary::first_item, shared.segment, [] {},
      [&](std::int64_t item) {
        RowSummary<In> row(static_cast<int>(item));
        // What comes before it needs the caller's memory alone, which has been there since before the chunks were read.
        WaitForEarlierLaunches();
        row.Run();
      });
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
