#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/blocks/chunk_table.cuh"
#include "kernels/cuda/core/slice.cuh"
#include "kernels/cuda/rows/link.h"
#include "kernels/cuda/small_rows/small.cuh"

// One matrix beyond a link (rows/link.h). Every access of a warp should be of whole 128-byte lines: the link moves each
// part of one on its own.
namespace softmax::kernels::cuda {

// The vectors of a stretch that a lane moves, such that all accesses of the warp but the first begin on a line:
// f(index) for each of them.
template <typename F>
__device__ __forceinline__ void ForLineVectors(const void* base, int vectors, F f) {
  const int line = static_cast<int>(reinterpret_cast<std::uintptr_t>(base) / kVectorBytes) & (kEdgeVectors - 1);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = lane - line; i < vectors; i += 32) {
    if (i >= 0) f(i);
  }
}

// Brings `elements` elements, from a boundary on, to shared memory; a whole warp calls it.
template <typename In>
__device__ __forceinline__ void LoadStretch(const In* from, int elements, In* shared) {
  constexpr int kVector = Element<In>::kVector;
  const int vectors = elements / kVector;
  __syncwarp();  // what was there before has been read by all
  ForLineVectors(from, vectors,
                 [&](int i) { __pipeline_memcpy_async(shared + i * kVector, from + i * kVector, sizeof(uint4)); });
  __pipeline_commit();
  const int rest = vectors * kVector + static_cast<int>(threadIdx.x) % 32;
  if (rest < elements) shared[rest] = from[rest];
  __pipeline_wait_prior(0);
  __syncwarp();
}

// The way back.
template <typename In>
__device__ __forceinline__ void StoreStretch(In* to, int elements, const In* shared) {
  constexpr int kVector = Element<In>::kVector;
  const int vectors = elements / kVector;
  __syncwarp();
  ForLineVectors(to, vectors, [&](int i) {
    *reinterpret_cast<uint4*>(to + i * kVector) = *reinterpret_cast<const uint4*>(shared + i * kVector);
  });
  const int rest = vectors * kVector + static_cast<int>(threadIdx.x) % 32;
  if (rest < elements) to[rest] = shared[rest];
}

// Some neighbouring rows that a warp runs at a time, where they are or staged in shared memory.
template <typename In>
struct LinkRows {
  const In* input;
  In* output;
  std::int64_t input_stride;
  std::int64_t output_stride;
  std::int64_t before;  // elements that may be read before the first row,
  std::int64_t after;   // and from there on
  int count;

  __device__ __forceinline__ Around AroundRow(int row, int valid) const {
    const std::int64_t at = row * input_stride;
    return {before + at >= Element<In>::kVector, after - (at + valid) >= Element<In>::kVector};
  }
};

// Small rows, a group of lanes each.
template <typename In, int kSlots, bool kSkew, bool kLog>
__device__ __forceinline__ void RunLinkRows(const LinkRows<In>& rows, const MatrixParams& params, std::int64_t first,
                                            const Scale<ComputeOf<In>>& scale) {
  using C = ComputeOf<In>;
  constexpr int kRows = SmallRows(kSlots);
  const int lane_count = kSlots > 4 ? 32 : params.lanes;  // three slots of fewer lanes go with four
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Lanes lanes{lane & (lane_count - 1), lane_count};
  const int groups = 32 / lane_count;
#pragma unroll 1
  for (int at = lane / lane_count; at - lane / lane_count < rows.count; at += groups * kRows) {
    RowPart<In, kSlots, kSkew> part[kRows];
    int valid[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      // Lanes without a row go along with an empty one: the shuffles need whole warps.
      const bool active = at + r * groups < rows.count;
      const int row = active ? at + r * groups : 0;
      valid[r] = active ? static_cast<int>(ValidLength(params, first + row)) : 0;
      part[r].Load(
          part[r].PlaceOf(rows.input + row * rows.input_stride, valid[r], rows.AroundRow(row, valid[r]), lanes), lanes);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int row = at + r * groups;
      const RowStats<C> stats = part[r].template FirstStats<kSlots, kLog, kSlots <= 2>(valid[r], lanes, scale);
      part[r].Forget();
      if (row >= rows.count) continue;
      const Normalizer<C> normalize(scale, stats, kLog, valid[r] == 0);
      part[r].Store(rows.output + row * rows.output_stride, params.cols, valid[r], true, lanes, normalize);
    }
  }
}

// A warp is a block, so that each goes at its own pace wherever there is room for it.
template <typename In, int kSlots, bool kSkew, bool kLog>
__global__ void __launch_bounds__(kLinkThreads, 1) LinkSmallKernel(const __grid_constant__ MatrixParams params) {
  extern __shared__ __align__(128) unsigned char dynamic[];
  static_assert(kLinkThreads == 32, "a warp");
  const auto scale = ScaleOf<ComputeOf<In>>(params);
  const bool staged = params.slice_bytes > 0;
  In* const stage = reinterpret_cast<In*>(dynamic);
  BeginAccess(params);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * params.rows_per_block;
#pragma unroll 1
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * params.rows_per_block; first < params.rows;
       first += step) {
    const std::int64_t begin = first * params.input_stride;
    const In* const input = static_cast<const In*>(params.input) + begin;
    In* const output = static_cast<In*>(params.output) + first * params.output_stride;
    const std::int64_t left = params.rows - first;
    const int count = left < params.rows_per_block ? static_cast<int>(left) : params.rows_per_block;
    const int elements = count * static_cast<int>(params.cols);
    LinkRows<In> rows{input, output, params.input_stride, params.output_stride, begin, params.elements - begin, count};
    if (staged) {
      LoadStretch(input, elements, stage);
      rows.input = rows.output = stage;
      rows.before = 0;
      rows.after = elements;
    }
    RunLinkRows<In, kSlots, kSkew, kLog>(rows, params, first, scale);
    if (staged) StoreStretch(output, elements, stage);
  }
  Complete(params.completion);
}

// Rows of several chunks, a block each: through shared memory, some chunks a warp.
template <typename In, bool kSkew, bool kLog>
__global__ void __launch_bounds__(kWideThreads, 1) LinkLargeKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ typename ChunkTable<C>::Control control;
  const Scale<C> scale = ScaleOf<C>(params);
  // The statistics of two rows' chunks come after the slices.
  const ChunkTable<C> table(reinterpret_cast<Stats<C>*>(dynamic + params.slice_bytes), &control, Team{1});
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first_chunk = warp * params.warp_chunks;
  const int chunks = min(params.warp_chunks, params.chunks - first_chunk);
  const std::int64_t column = static_cast<std::int64_t>(first_chunk) * Element<In>::kChunk;
  BeginAccess(params);
  int entries = 0;
#pragma unroll 1
  for (std::int64_t row = blockIdx.x; row < params.rows; row += gridDim.x) {
    const std::int64_t valid = ValidLength(params, row);
    Slice<In, kSkew, kLog, 4, sizeof(In) == 8> slice;
    const In* const input = static_cast<const In*>(params.input) + row * params.input_stride + column;
    slice.Start(input, valid - column, AroundOf<In>(params, row, column, valid - column), chunks,
                reinterpret_cast<uint4*>(dynamic) + warp * params.warp_vectors);
    slice.Reduce(input, column == 0 ? valid : kManyColumns, scale, [&](int k, const Stats<C>& stats) {
      if (first_chunk + k < params.chunks) table.Publish(entries + first_chunk + k, stats);
    });
    const Stats<C> stats = table.Fold(entries, params.chunks, scale);
    // In turns, so that one barrier a row is enough: warps tell the next row's while others still read this one's.
    entries = params.chunks - entries;
    const Normalizer<C> normalize(scale, stats, kLog, valid == 0);
    slice.Store(static_cast<In*>(params.output) + row * params.output_stride + column, params.cols - column,
                valid - column, column == 0, normalize);
  }
  EndBulkStores(params.completion);
  Complete(params.completion);
}

template <typename In>
const LinkKernels& LinkKernelsOf() {
  constexpr int kMost = SmallSlots(sizeof(In));
#define SOFTMAX_LINK_SMALL(slots)                                                 \
  {                                                                               \
    {reinterpret_cast<const void*>(&LinkSmallKernel<In, slots, false, false>),    \
     reinterpret_cast<const void*>(&LinkSmallKernel<In, slots, false, true>)},    \
        {reinterpret_cast<const void*>(&LinkSmallKernel<In, slots, true, false>), \
         reinterpret_cast<const void*>(&LinkSmallKernel<In, slots, true, true>)}, \
  }
  static const LinkKernels kernels{{SOFTMAX_LINK_SMALL(2), SOFTMAX_LINK_SMALL(4), SOFTMAX_LINK_SMALL(kMost)},
                                   {{reinterpret_cast<const void*>(&LinkLargeKernel<In, false, false>),
                                     reinterpret_cast<const void*>(&LinkLargeKernel<In, false, true>)},
                                    {reinterpret_cast<const void*>(&LinkLargeKernel<In, true, false>),
                                     reinterpret_cast<const void*>(&LinkLargeKernel<In, true, true>)}}};
#undef SOFTMAX_LINK_SMALL
  return kernels;
}

}  // namespace softmax::kernels::cuda
