#pragma once

#include "kernels/cuda/blocks/chunk_table.cuh"
#include "kernels/cuda/blocks/grid_table.cuh"
#include "kernels/cuda/large_rows/chunk.cuh"

// So few rows that one launch does not fill the device, each shared by many blocks, a warp for each chunk: what counts
// is how long one launch takes, not how much it does. The blocks of a row are a cluster, or where a single row is so
// wide that its bytes want more multiprocessors than a cluster has, a grid launched cooperatively, which exchanges
// statistics through device memory.
namespace softmax::kernels::cuda {

// How the blocks of one row bring their chunks' statistics together.
template <bool kGrid>
class FewExchange;

// The blocks of a cluster.
template <>
class FewExchange<false> {
 public:
  __device__ __forceinline__ FewExchange(const MatrixParams& params, std::uint64_t* barrier)
      : params_(params), exchange_(barrier) {
    exchange_.Expect(params.chunks * static_cast<int>(sizeof(Stats<float>)));
    ClusterExchange::Arrive();
  }
  __device__ __forceinline__ void Begin() {}
  __device__ __forceinline__ void Run(int chunk, int, const Stats<float>& stats, Stats<float>* entries) const {
    ClusterExchange::Begin();
    if (chunk < params_.chunks) exchange_.SendFromWarp(entries + chunk, stats, params_.cluster_blocks);
    exchange_.Wait();
  }
  __device__ __forceinline__ void End() const {}

 private:
  const MatrixParams& params_;
  const ClusterExchange exchange_;
};

// The blocks of a grid. The table has several copies, so that not all blocks look at the same lines of the L2.
template <>
class FewExchange<true> {
 public:
  __device__ __forceinline__ FewExchange(const MatrixParams& params, std::uint64_t*) : params_(params) {}
  __device__ __forceinline__ void Begin() { tag_ = GridTable<float>::NextTag(params_); }
  __device__ __forceinline__ void Run(int chunk, int lane, const Stats<float>& stats, Stats<float>* entries) const {
    const GridTable<float> table(params_, tag_);
    const int count = params_.chunks;
    if (chunk < count && lane < params_.table_rows) table.Publish(lane, count, chunk, stats);
    __syncwarp();
    const int copy = static_cast<int>(blockIdx.x) % params_.table_rows;
    const auto thread = static_cast<int>(threadIdx.x);
    table.Await(copy, count, thread, count - thread, entries + thread, params_.warps * 32);
    __syncwarp();
    __syncthreads();
  }
  __device__ __forceinline__ void End() const { GridTable<float>::EndCopies(params_, tag_); }

 private:
  const MatrixParams& params_;
  std::uint32_t tag_ = 0;
};

// By the whole block: the statistics of its row.
template <bool kGrid>
__device__ __forceinline__ Stats<float> FoldFewRow(const Stats<float>* entries, int chunks, const Scale<float>& scale) {
  constexpr int kFewChunks = 16;
  constexpr int kFoldedByAll = 128;  // a barrier more takes longer than what the warps take from each other
  __shared__ Stats<float> row;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (!kGrid) {
    if (chunks <= kFewChunks) return FoldFew(entries, chunks, lane, scale);
    if (chunks <= kFoldedByAll) return FoldMany<4, false>(entries, chunks, lane, scale);
  }
  if (threadIdx.x < 32) {
    constexpr int kAtOnce = kGrid ? 8 : 4;
    const Stats<float> stats = FoldMany<kAtOnce, kGrid>(entries, chunks, lane, scale);
    if (threadIdx.x == 0) row = stats;
  }
  __syncthreads();
  return row;
}

// kGrid: there is one row.
template <typename In, bool kGrid, LogForm kLogForm, bool kMixed>
__global__ void __launch_bounds__(kGrid ? kMatrixThreads : kWideThreads, 2)
    FewMatrixKernel(const __grid_constant__ MatrixParams params) {
  constexpr int kChunk = Element<In>::kChunk;
  const bool log = IsLog<kLogForm>(params);
  __shared__ Stats<float> entries[kFlatChunks];
  __shared__ std::uint64_t barrier;
  const Scale<float> scale = ScaleOf<float>(params);
  FewExchange<kGrid> exchange(params, &barrier);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = kGrid ? 0 : static_cast<int>(blockIdx.x) / params.cluster_blocks;
  const int chunk = (static_cast<int>(blockIdx.x) - row * params.cluster_blocks) * params.warps + warp;
  const int column = chunk * kChunk;
  const In* const input = static_cast<const In*>(params.input) + row * params.input_stride + column;
  AskAhead<In>(params);
  BeginAccess(params);
  const auto valid = static_cast<int>(ValidLength(params, row));
  ChunkPart<In> part;
  part.Load(input, valid - column, lane);
  exchange.Begin();
  Stats<float> stats = part.Reduce(valid - column, lane, scale);
  if (log && column == 0 && valid <= kPreciseColumns) stats = part.Precise(lane, scale);
  exchange.Run(chunk, lane, stats, entries);
  stats = FoldFewRow<kGrid>(entries, params.chunks, scale);
  part.Forget();
  const Normalizer<float> normalize(scale, stats, log, valid == 0);
  const auto n = static_cast<int>(params.cols) - column;
  ForOutput<In, kMixed>(params, row, [&](auto* output) {
    if constexpr (kMixed) {
      part.StoreMixed(output + column, n, valid - column, lane, normalize);
    } else {
      part.template Store<kLogForm == LogForm::kYes>(output + column, n, valid - column, lane, normalize);
    }
  });
  exchange.End();
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
