#pragma once

#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/core/part.cuh"
#include "kernels/cuda/general/column_rows.cuh"
#include "kernels/cuda/general/large_rows.cuh"

// The kernel: a block, or a cluster, takes a contiguous range of the batch's items and walks the segment table along.
namespace softmax::kernels::cuda {

// Small rows: a group of 1 to 32 lanes per row, everything in registers, no barrier. An item is what the
// block's warps take at one time: kBlockThreads / lanes rows.

template <typename In, int kSlots>
__device__ __forceinline__ void RunSmallRowsSlots(const DeviceSegment& segment, DataType output_type, std::int64_t item,
                                                  const Scale<ComputeOf<In>>& scale) {
  const int lanes_per_row = static_cast<int>(segment.lanes);
  const Lanes lanes{static_cast<int>(threadIdx.x) & (lanes_per_row - 1), lanes_per_row};
  std::int64_t row = (item * kBlockThreads + threadIdx.x) / lanes_per_row;
  // Lanes without a row go along with an empty one: the shuffles need whole warps.
  const bool active = row < segment.outer;
  if (!active) row = 0;
  const int cols = active ? static_cast<int>(segment.cols) : 0;
  const int valid = active ? static_cast<int>(ValidLength(segment, row)) : 0;
  const In* input = static_cast<const In*>(segment.input) + row * segment.input_stride;
  uint4 v[kSlots];
  LoadPart(input, valid, Around{false, false}, segment.input_wide != 0, lanes, v);
  const auto stats = FirstStats<In, kSlots, kSlots <= 2>(segment.log != 0, v, valid, valid, lanes, scale);
#pragma unroll
  for (uint4& vector : v) Opaque(vector);  // its elements would take more registers than it does
  const Normalizer<ComputeOf<In>> normalize(scale, stats, segment.log != 0, valid == 0);
  ForAnyType(output_type, [&](auto* type) {
    auto* output = static_cast<decltype(type)>(segment.output) + row * segment.output_stride;
    WritePart<In>(output, cols, valid, segment.output_wide != 0, lanes, v, normalize);
  });
}

template <typename In>
__device__ __forceinline__ void RunSmallRows(const DeviceSegment& segment, DataType output_type, std::int64_t item,
                                             const Scale<ComputeOf<In>>& scale) {
  constexpr int kSlots = SmallSlots(sizeof(In));
  // Empty slots add exact zeros to the sums, so the number compiled for does not show in the bits.
  const int per_slot = static_cast<int>(segment.lanes) * Element<In>::kVector;
  if (segment.cols <= 2 * per_slot) {
    RunSmallRowsSlots<In, 2>(segment, output_type, item, scale);
  } else if (kSlots == 4 || segment.cols <= 4 * per_slot) {
    RunSmallRowsSlots<In, 4>(segment, output_type, item, scale);
  } else {
    RunSmallRowsSlots<In, kSlots>(segment, output_type, item, scale);
  }
}

__device__ __forceinline__ const DeviceSegment& SegmentAt(const LaunchParams& params, std::uint32_t index) {
  return params.table != nullptr ? params.table[index] : params.segments[index];
}

// The table's segment that holds an item: known beforehand where the table is in host memory (each look costs a trip
// over the bus), searched among the few of the parameters.
__device__ __forceinline__ std::uint32_t FindSegment(const LaunchParams& params, const std::uint32_t* known,
                                                     std::int64_t item, std::uint32_t begin, std::uint32_t end) {
  if (params.table != nullptr) return *known;
  while (begin + 1 < end && params.segments[begin + 1].first_item <= item) ++begin;
  return begin;
}

// A team's share of one list of items.
struct Share {
  std::int64_t first;
  std::int64_t last;
  std::uint32_t index;  // the segment of the first item
  std::uint32_t end;    // of the list's segments
};

__device__ __forceinline__ Share ShareOf(const LaunchParams& params, bool clusters) {
  const std::int64_t team = clusters ? blockIdx.x / params.cluster_blocks : blockIdx.x;
  const std::int64_t each = clusters ? params.items_per_cluster : params.items_per_block;
  const std::int64_t items = clusters ? params.cluster_items : params.block_items;
  const std::uint32_t begin = clusters ? 0 : params.cluster_segments;
  Share share{team * each, team * each + each, begin, clusters ? params.cluster_segments : params.segment_count};
  if (share.last > items) share.last = items;
  if (share.first >= share.last) return share;
  const std::uint32_t* const known = (clusters ? params.cluster_first : params.block_first) + team;
  share.index = FindSegment(params, known, share.first, begin, share.end);
  return share;
}

// Walks a share of a list and calls run(segment, begin, end) with the items counted within the segment. The block reads
// each segment into shared memory together, which frees registers.
template <typename F>
__device__ __forceinline__ void ForItems(const LaunchParams& params, Share share, F run) {
  auto& [first, last, index, end] = share;
  while (first < last) {
    const std::int64_t next = index + 1 < end ? SegmentAt(params, index + 1).first_item : last;
    const std::int64_t stop = next < last ? next : last;
    __shared__ DeviceSegment segment;
    constexpr int kWords = sizeof(DeviceSegment) / sizeof(std::uint32_t);
    __syncthreads();  // the last segment's users are done with it, and with the other shared memory
    if (threadIdx.x < kWords) {
      reinterpret_cast<std::uint32_t*>(&segment)[threadIdx.x] =
          reinterpret_cast<const std::uint32_t*>(&SegmentAt(params, index))[threadIdx.x];
    }
    __syncthreads();
    run(segment, first - segment.first_item, stop - segment.first_item);
    first = stop;
    ++index;
  }
}

// One scale for the block, in shared memory to save registers. Whoever used the last one is past a barrier of ForItems.
template <typename In>
__device__ __forceinline__ const Scale<ComputeOf<In>>& SharedScale(double scale) {
  using S = Scale<ComputeOf<In>>;
  __shared__ __align__(alignof(S)) unsigned char shared[sizeof(S)];
  if (threadIdx.x == 0) *reinterpret_cast<S*>(shared) = S::Of(scale);
  __syncthreads();
  return *reinterpret_cast<const S*>(shared);
}

// Blocks a multiprocessor has to hold: as many as leave registers enough. fp64 needs twice the registers and is bound
// by arithmetic rather than by memory.
template <typename In>
constexpr int kMinBlocks = sizeof(In) == 8 ? 1 : 2;

template <typename In>
__global__ void __launch_bounds__(kBlockThreads, kMinBlocks<In>)
    GeneralKernel(const __grid_constant__ LaunchParams params) {
  extern __shared__ __align__(16) unsigned char shared[];
  LargeRows<In> large(params, shared);
  // First the rows that take the whole cluster, then what each block does alone; one copy of the code for both.
  bool clusters = params.cluster_items > 0;
  // A block's shared memory may be written by others only once it has started.
  if (clusters) Team{static_cast<int>(params.cluster_blocks)}.Sync();
  while (true) {
    const Team team{clusters ? static_cast<int>(params.cluster_blocks) : 1};
    ForItems(
        params, ShareOf(params, clusters),
        [&](const DeviceSegment& segment, std::int64_t begin, std::int64_t end) __attribute__((always_inline)) {
          const auto& scale = SharedScale<In>(segment.scale);
          if (segment.inner > 1) {
            ColumnRows<In> columns(params, shared, segment, scale);
            for (std::int64_t item = begin; item < end; ++item) columns.Run(item);
          } else if (segment.cols > Element<In>::kSmall) {
            large.Run(segment, begin, end, team, scale);
          } else {
            for (std::int64_t item = begin; item < end; ++item) {
              RunSmallRows<In>(segment, params.output_type, item, scale);
            }
          }
        });
    if (!clusters) break;
    // No block may leave, or use its shared memory for other rows, while another still writes to it.
    team.Sync();
    clusters = false;
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
