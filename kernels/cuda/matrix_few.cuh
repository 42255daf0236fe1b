#pragma once

#include "kernels/cuda/chunk_table.cuh"
#include "kernels/cuda/grid_table.cuh"
#include "kernels/cuda/matrix_chunk.cuh"

// So few rows that one launch does not fill the device, each shared by many blocks, a warp for each chunk: what counts
// is how long one launch takes, not how much it does. The blocks of a row are a cluster, or where a single row is so
// wide that its bytes want more multiprocessors than a cluster has, a grid launched cooperatively, which exchanges
// statistics through device memory.
namespace softmax::kernels::cuda {

// A sum of CombineTwo() as Stats<float> holds it, left in a double: to round its bits takes half as long as to convert
// it there and back. Not for what is a subnormal number as a float; no such sum is.
__device__ __forceinline__ double RoundToFloat(double sum) {
  auto bits = static_cast<std::uint64_t>(__double_as_longlong(sum));
  bits += 0x0fffffff + (bits >> 29 & 1);  // half of the last place that stays, less where that is even
  return __longlong_as_double(static_cast<std::int64_t>(bits & ~std::uint64_t{0x1fffffff}));
}

// What CombineTwo() gives from entry to entry: only the sums wait for each other.
template <int kCount>
__device__ __forceinline__ void CombineMany(const Stats<float> (&next)[kCount], const Scale<float>& scale, float* max,
                                            double* sum) {
  double factors[kCount];
  double terms[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    // The larger one's own factor is 1.
    const bool is_larger = next[i].max > *max;
    const float smaller = is_larger ? *max : next[i].max;
    *max = Larger(*max, next[i].max);
    const double factor = scale.Exp(smaller, MaxPre(*max, scale));
    factors[i] = is_larger ? factor : 1.0;
    terms[i] = next[i].sum * (is_larger ? 1.0 : factor);
  }
  // Products of floats are exact in a double.
#pragma unroll
  for (int i = 0; i < kCount; ++i) *sum = RoundToFloat(fma(*sum, factors[i], terms[i]));
}

// What FoldFlat() gives for more than 16 chunks. kMaximaFirst: the lanes' factors are known before their sums, which
// takes registers.
template <int kAtOnce, bool kMaximaFirst>
__device__ __forceinline__ Stats<float> FoldMany(const Stats<float>* table, int chunks, int lane,
                                                 const Scale<float>& scale) {
  const Stats<float> mine = lane < chunks ? table[lane] : NoStats<float>();
  float max = mine.max;
  double sum = mine.sum;
  float row_max = 0;
  double factor = 0;
  if constexpr (kMaximaFirst) {
    float lane_max = max;
#pragma unroll 4
    for (int i = lane + 32; i < chunks; i += 32) lane_max = Larger(lane_max, table[i].max);
    row_max = LaneMax(lane_max, 32);
    factor = scale.Exp(lane_max, MaxPre(row_max, scale));
  }
#pragma unroll 1
  for (int first = lane + 32; first < chunks; first += 32 * kAtOnce) {
    Stats<float> next[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      next[i] = first + 32 * i < chunks ? table[first + 32 * i] : NoStats<float>();
    }
    CombineMany(next, scale, &max, &sum);
  }
  __syncwarp();
  if constexpr (kMaximaFirst) return {row_max, static_cast<float>(LaneSum(sum * factor, 32))};
  return CombineLanes(Stats<float>{max, static_cast<float>(sum)}, scale);
}

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
template <typename In, bool kLog, bool kGrid>
__global__ void __launch_bounds__(kGrid ? kMatrixThreads : kWideThreads, 2)
    FewMatrixKernel(const __grid_constant__ MatrixParams params) {
  constexpr int kChunk = Element<In>::kChunk;
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
  if (kLog && column == 0 && valid <= kPreciseColumns) stats = part.Precise(lane, scale);
  exchange.Run(chunk, lane, stats, entries);
  stats = FoldFewRow<kGrid>(entries, params.chunks, scale);
  part.Forget();
  const Normalizer<float> normalize(scale, stats, kLog, valid == 0);
  In* const output = static_cast<In*>(params.output) + row * params.output_stride + column;
  part.template Store<kLog>(output, static_cast<int>(params.cols) - column, valid - column, lane, normalize);
  exchange.End();
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
