#pragma once

#include "kernels/cuda/blocks/again.cuh"
#include "kernels/cuda/blocks/chunk_table.cuh"
#include "kernels/cuda/large_rows/bulk.h"
#include "kernels/cuda/large_rows/chunk.cuh"

// Many rows of more chunks than a block has warps, that begin on boundaries and are whole vectors: a warp for each
// chunk as in large_rows/chunk.cuh, in the blocks of a cluster.
namespace softmax::kernels::cuda {

// The chunk of a thread's warp.
struct ClusterPlace {
  int lane;
  int chunk;
  std::int64_t row;

  __device__ __forceinline__ explicit ClusterPlace(const MatrixParams& params) {
    const int thread = ThreadAgain();
    lane = thread % 32;
    chunk = RankAgain() * params.warps + thread / 32;
    row = BlockAgain() / static_cast<std::uint32_t>(params.cluster_blocks);
  }
};

// Blocks that a multiprocessor has to hold: 40 registers are left to a thread, or 48.
constexpr int ClusterBlocks(int warps) { return BlocksThatFit(32 * warps, warps > 8 ? 3 : 5); }

template <typename In, bool kLog>
__global__ void __launch_bounds__(32 * ClusterWarps(sizeof(In), kLog), ClusterBlocks(ClusterWarps(sizeof(In), kLog)))
    ClusterMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  constexpr int kChunk = Element<In>::kChunk;
  __shared__ Stats<C> entries[ClusterWarps(sizeof(In), kLog) * kLargeClusterBlocks];
  __shared__ typename ChunkTable<C>::Control control;
  const Scale<C> scale = ScaleOf<C>(params);
  const ChunkTable<C> table(entries, &control, Team{params.cluster_blocks});
  table.Arrive(params.chunks);
  AskAhead<In>(params);
  BeginAccess(params);
  ChunkPart<In> part;
  {
    const ClusterPlace place(params);
    const int column = place.chunk * kChunk;
    const auto valid = static_cast<int>(ValidLength(params, place.row));
    part.Load(static_cast<const In*>(params.input) + place.row * params.input_stride + column, valid - column,
              place.lane);
    Stats<C> stats = part.Reduce(valid - column, place.lane, scale);
    if (kLog && place.chunk == 0 && valid <= kPreciseColumns) stats = part.Precise(place.lane, scale);
    table.Begin();
    if (place.chunk < params.chunks) table.Publish(place.chunk, stats);
  }
  const Stats<C> stats = table.Fold(0, params.chunks, scale);
  part.Forget();
  const ClusterPlace place(params);
  const auto valid = static_cast<int>(ValidLength(params, place.row));
  const int column = place.chunk * kChunk;
  if (column < params.cols) {
    const Normalizer<C> normalize(scale, stats, kLog, valid == 0);
    part.template Store<kLog>(static_cast<In*>(params.output) + place.row * params.output_stride + column,
                              static_cast<int>(params.cols) - column, valid - column, place.lane, normalize);
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
