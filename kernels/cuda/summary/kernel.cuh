#pragma once

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/summary/rows.cuh"
#include "kernels/cuda/summary/small.cuh"
#include "kernels/cuda/summary/warp.cuh"

namespace softmax::kernels::cuda {

// The segment that a block's item belongs to, copied to shared memory. Items only grow.
class SegmentWalk {
 public:
  // Where the table is in the host's memory, of which each look costs a trip over the bus, a block takes neighbouring
  // items. `first_of`: what tells a segment's first item.
  __device__ __forceinline__ SegmentWalk(const SummaryParams& params, DeviceSummary& segment,
                                         std::int64_t DeviceSummary::*first_of)
      : first_of_(first_of),
        segments_(params.table != nullptr ? params.table : params.segments),
        count_(params.segment_count),
        segment_(segment),
        first_(params.table != nullptr ? blockIdx.x * params.items_per_block : blockIdx.x),
        step_(params.table != nullptr ? 1 : gridDim.x),
        end_(params.table != nullptr ? min(first_ + params.items_per_block, params.items) : params.items),
        index_(params.table != nullptr && first_ < end_ ? params.block_first[blockIdx.x] : 0) {}

  __device__ __forceinline__ std::int64_t first() const { return first_; }
  __device__ __forceinline__ std::int64_t end() const { return end_; }
  __device__ __forceinline__ std::int64_t step() const { return step_; }

  // Whether the item's segment is another one than before, to be copied by Load().
  __device__ __forceinline__ bool MovesTo(std::int64_t item) {
    bool moves = is_new_;
    is_new_ = false;
    for (; index_ + 1 < count_ && segments_[index_ + 1].*first_of_ <= item; ++index_) moves = true;
    return moves;
  }
  // By the whole block.
  __device__ __forceinline__ void Load() const {
    __syncthreads();  // nobody needs the one before
    constexpr int kWords = sizeof(DeviceSummary) / sizeof(std::uint32_t);
    if (threadIdx.x < kWords) {
      reinterpret_cast<std::uint32_t*>(&segment_)[threadIdx.x] =
          reinterpret_cast<const std::uint32_t*>(segments_ + index_)[threadIdx.x];
    }
    __syncthreads();
  }

 private:
  std::int64_t DeviceSummary::*const first_of_;
  const DeviceSummary* const segments_;
  const std::uint32_t count_;
  DeviceSummary& segment_;
  const std::int64_t first_;
  const std::int64_t step_;
  const std::int64_t end_;
  std::uint32_t index_;
  bool is_new_ = true;
};

// Small rows, of which each is held by lanes of a warp.
template <typename In>
__global__ void __launch_bounds__(kBlockThreads, sizeof(In) == 8 ? 2 : kSmallSummaryBlocks)
    SmallSummaryKernel(const __grid_constant__ SummaryParams params) {
  constexpr int kWarpVector = 32 * Element<In>::kVector;
  __shared__ DeviceSummary segment;
  __shared__ __align__(16) unsigned char bytes[kBlockWarps * sizeof(WarpShared<In>)];
  WaitingRows<In> waiting(reinterpret_cast<WarpShared<In>*>(bytes)[threadIdx.x / 32], segment, params.output_type);
  SegmentWalk walk(params, segment, &DeviceSummary::first_item);
  for (std::int64_t item = walk.first(); item < walk.end(); item += walk.step()) {
    if (walk.MovesTo(item)) {
      waiting.Finish();
      walk.Load();
    }
    const std::int64_t mine = item - segment.first_item;
    // Empty slots add exact zeros to the sums, so the number compiled for does not show in the bits.
    if (segment.lanes == 16) {
      WarpSummary<In, 2>(segment, params.output_type, waiting).RunPair(mine);
    } else if (segment.lanes < 32) {
      const auto& scale = *reinterpret_cast<const Scale<ComputeOf<In>>*>(segment.scale_parts);
      SmallSummary<In, kNarrowSlots>(segment, params.output_type, scale).Run(mine);
    } else if (segment.cols <= 2 * kWarpVector) {
      WarpSummary<In, 2>(segment, params.output_type, waiting).Run(mine);
    } else {
      WarpSummary<In, SmallSlots(sizeof(In))>(segment, params.output_type, waiting).Run(mine);
    }
  }
  waiting.Finish();
  Complete(params.completion);
}

// All other rows: their chunks, a warp each,
template <typename In>
__global__ void __launch_bounds__(kBlockThreads, sizeof(In) == 8 ? 3 : kSummaryReadBlocks)
    SummaryReadKernel(const __grid_constant__ SummaryParams params) {
  __shared__ DeviceSummary segment;
  AllowNextLaunch();
  SegmentWalk walk(params, segment, &DeviceSummary::first_read);
  for (std::int64_t item = walk.first(); item < walk.end(); item += walk.step()) {
    if (walk.MovesTo(item)) walk.Load();
    const std::int64_t chunk =
        (item - segment.first_read) * kBlockWarps + static_cast<int>(threadIdx.x) / 32;  // of all of the segment
    if (chunk >= segment.rows * segment.chunks.value()) continue;
    const int row = segment.chunks.Quotient(static_cast<int>(chunk));
    ReadChunk<In>(params, segment, row, static_cast<int>(chunk) - row * segment.chunks.value());
  }
}
// and their results, a block a row.
template <typename In>
__global__ void __launch_bounds__(LargeRowThreads(sizeof(In)), 1)
    SummaryRowKernel(const __grid_constant__ SummaryParams params) {
  SummaryShared<In>& shared = TheShared<In>();
  if (threadIdx.x == 0) {  // Load() has the barrier for it
    shared.tables = params.tables;
    shared.output_type = params.output_type;
  }
  SegmentWalk walk(params, shared.segment, &DeviceSummary::first_item);
  for (std::int64_t item = walk.first(); item < walk.end(); item += walk.step()) {
    if (walk.MovesTo(item)) walk.Load();
    RowSummary<In> row(static_cast<int>(item - shared.segment.first_item));
    // What comes before it needs the caller's memory alone, which has been there since before the chunks were read.
    if (item == walk.first()) WaitForEarlierLaunches();
    row.Run();
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
