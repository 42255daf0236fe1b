#pragma once

#include "kernels/cuda/blocks/chunk_table.cuh"
#include "kernels/cuda/blocks/matrix.cuh"
#include "kernels/cuda/blocks/slice.cuh"

// Large rows of one matrix: the warps of a block, or of a cluster, each hold some neighbouring chunks of a row and
// exchange the chunks' statistics once.
namespace softmax::kernels::cuda {

// In registers, a chunk a warp. A block takes several rows side by side where they are short.
template <typename In, bool kSkew, bool kMixed>
__global__ void __launch_bounds__(kWideThreads, kMixed ? 1 : 2)
    LargeMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  __shared__ Stats<C> entries[kFlatChunks];
  __shared__ typename ChunkTable<C>::Control control;
  const Scale<C> scale = ScaleOf<C>(params);
  const Team team{params.cluster_blocks};
  const ChunkTable<C> table(entries, &control, team);
  table.Arrive(params.chunks);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Lanes lanes{static_cast<int>(threadIdx.x) % 32, 32};
  const int side = warp / params.warps;
  const int chunk = team.Rank() * params.warps + warp % params.warps;
  const int column = chunk * Element<In>::kChunk;
  const int row = static_cast<int>(blockIdx.x) / params.cluster_blocks * params.rows_per_block + side;
  const bool active = row < params.rows;
  AskAhead<In>(params);
  BeginAccess(params);
  const int valid = active ? static_cast<int>(ValidLength(params, row)) : 0;

  RowPart<In, kChunkSlots, kSkew> part;
  const In* const input = static_cast<const In*>(params.input) + row * params.input_stride + column;
  part.Load(part.PlaceOf(input, valid - column, AroundOf<In>(params, row, column, valid - column), lanes), lanes);
  // The last chunk of a row may be nearly empty; slots without columns change no bit. Doubles have no registers for two
  // ways, and other warps' full chunks take as long.
  const bool is_short = sizeof(C) == 4 && valid - column <= 32 * Element<In>::kVector;
  const int careful = params.log && column == 0 ? valid : kManyColumns;
  const Stats<C> mine = is_short ? part.template FirstStats<1>(careful, lanes, scale)
                                 : part.template FirstStats<kChunkSlots>(careful, lanes, scale);
  table.Begin();
  if (chunk < params.chunks) table.Publish(side * params.chunks + chunk, mine);
  const Stats<C> stats = table.Fold(side * params.chunks, params.chunks, scale);
  part.Forget();
  if (active && column < params.cols) {
    const Normalizer<C> normalize(scale, stats, params.log, valid == 0);
    const auto n = static_cast<int>(params.cols) - column;
    ForOutput<In, kMixed>(params, row, [&](auto* output) {
      if constexpr (kMixed) {
        part.template StoreMixed<true>(output + column, n, valid - column, column == 0, lanes, normalize);
      } else {
        part.Store(output + column, n, valid - column, column == 0, lanes, normalize);
      }
    });
  }
  Complete(params.completion);
}

constexpr int kSliceBlocks = 1024 / kWideThreads;  // 64 registers are left to a thread

// In shared memory, up to four chunks a warp; one row for each block or cluster.
template <typename In>
__global__ void __launch_bounds__(kWideThreads, kSliceBlocks)
    SliceMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ typename ChunkTable<C>::Control control;
  const Scale<C> scale = ScaleOf<C>(params);
  const Team team{params.cluster_blocks};
  // The statistics of the rows' chunks come after the slices.
  const ChunkTable<C> table(reinterpret_cast<Stats<C>*>(dynamic + params.slice_bytes), &control, team);
  table.Arrive(params.chunks);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int before = warp * params.warp_chunks;
  const int chunks = min(params.warp_chunks, params.block_chunks - before);
  const int first_chunk = team.Rank() * params.block_chunks + before;
  const std::int64_t column = static_cast<std::int64_t>(first_chunk) * Element<In>::kChunk;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) / params.cluster_blocks;
  AskAhead<In>(params);
  BeginAccess(params);
  const std::int64_t valid = ValidLength(params, row);

  const In* const input = static_cast<const In*>(params.input) + row * params.input_stride + column;
  const Slice<In, true> slice(input, valid - column, chunks,
                              reinterpret_cast<uint4*>(dynamic) + warp * params.warp_vectors);
  slice.template Start<true>(input, AroundOf<In>(params, row, column, valid - column));
  table.Begin();
  slice.template Reduce<true>(params.log && column == 0 ? valid : kManyColumns, scale,
                              [&](int k, const Stats<C>& stats) {
                                if (first_chunk + k < params.chunks) table.Publish(first_chunk + k, stats);
                              });
  const Stats<C> stats = table.Fold(0, params.chunks, scale);
  if (column < params.cols) {
    const Normalizer<C> normalize(scale, stats, params.log, valid == 0);
    slice.Store(static_cast<In*>(params.output) + row * params.output_stride + column, params.cols - column,
                valid - column, column == 0, normalize);
  }
  EndBulkStores(params.completion);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
