#pragma once

#include "kernels/cuda/matrix_small.cuh"
#include "kernels/cuda/slice.cuh"

// Rows wider than a cluster holds: a team of blocks shares a row, each block some neighbouring groups of chunks, and
// exchanges the groups' statistics through device memory. The grid is launched cooperatively, as the blocks wait for
// each other; teams are independent, so that some read while others write. What a block cannot keep in shared memory it
// reads again.
namespace softmax::kernels::cuda {

template <typename In, bool kSkew, bool kLog>
class WideRows {
 public:
  using C = ComputeOf<In>;

  __device__ __forceinline__ WideRows(const MatrixParams& params, uint4* shared, Stats<C>* table)
      : params_(params),
        shared_(shared),
        table_(table),
        scale_(ScaleOf<C>(params)),
        team_(static_cast<int>(blockIdx.x) / params.team_blocks),
        first_group_(static_cast<int>(blockIdx.x) % params.team_blocks * params.block_groups),
        last_group_(min(first_group_ + params.block_groups, params.groups)),
        kept_(max(first_group_, last_group_ - params.kept_groups)) {}

  __device__ __forceinline__ void Run() {
    if (team_ >= params_.teams) return;
    int round = 0;
    for (row_ = team_; row_ < params_.rows; row_ += params_.teams, ++round) {
      valid_ = ValidLength(params_, row_);
      for (int group = first_group_; group < last_group_; ++group) {
        Start(group, max(0, group - kept_));
        Reduce(group, round & 1);
      }
      WaitForTeam(round);
      const Normalizer<C> normalize(scale_, Fold(round & 1), kLog, valid_ == 0);
      for (int group = last_group_ - 1; group >= first_group_; --group) {
        if (group < kept_) {
          Start(group, 0);
          __pipeline_wait_prior(0);
          __syncwarp();
        } else {
          slice_.Attach(Input(group), valid_ - Column(group), slice_.kMaxChunks, Place(group - kept_));
        }
        Store(group, row_, valid_, slice_, normalize);
      }
    }
  }

 private:
  __device__ __forceinline__ std::int64_t Column(int group) const {
    return (static_cast<std::int64_t>(group) * kGroupChunks + warp_ * Slice<In, kSkew, kLog>::kMaxChunks) *
           Element<In>::kChunk;
  }
  __device__ __forceinline__ const In* Input(int group) const {
    return static_cast<const In*>(params_.input) + row_ * params_.input_stride + Column(group);
  }
  __device__ __forceinline__ uint4* Place(int place) const {
    return shared_ + (place * kBlockWarps + warp_) * params_.warp_vectors;
  }
  __device__ __forceinline__ void Start(int group, int place) {
    const std::int64_t n = valid_ - Column(group);
    slice_.Start(Input(group), n, AroundOf<In>(params_, row_, Column(group), n), slice_.kMaxChunks, Place(place));
  }

  __device__ __forceinline__ Stats<C>* TeamTable(int half) const {
    return reinterpret_cast<Stats<C>*>(params_.completion.workspace + kWorkspaceTable) +
           (team_ * 2 + half) * params_.groups;
  }
  __device__ __forceinline__ void Reduce(int group, int half) {
    slice_.Reduce(Input(group), Column(group) == 0 ? valid_ : kManyColumns, scale_, [&](int k, const Stats<C>& stats) {
      if (lane_ == 0) table_[warp_ * slice_.kMaxChunks + k] = stats;
    });
    __syncthreads();
    if (warp_ == 0) {
      const Stats<C> stats = CombineLanes(table_[lane_], scale_);
      if (lane_ == 0) TeamTable(half)[group] = stats;
    }
    __syncthreads();
  }

  // Tells the team that this block's statistics are written, and waits until all are.
  __device__ __forceinline__ void WaitForTeam(int round) const {
    if (threadIdx.x == 0) {
      std::uint32_t* const counter = params_.completion.workspace + kWorkspaceTeams + team_;
      const std::uint32_t all = static_cast<std::uint32_t>(round + 1) * static_cast<std::uint32_t>(params_.team_blocks);
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
      std::uint32_t arrived = 0;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(counter) : "memory");
      } while (arrived < all);
    }
    __syncthreads();
  }
  // As RowFold does it.
  __device__ __forceinline__ Stats<C> Fold(int half) const {
    const Stats<C>* const table = TeamTable(half);
    Stats<C> low = NoStats<C>();
    Stats<C> high = NoStats<C>();
    for (int group = lane_; group < params_.groups; group += 32) {
      const Stats<C> stats{__ldcg(&table[group].max), __ldcg(&table[group].sum)};
      if (group % kAccumulators < 32) {
        low = CombineTwo(low, stats, scale_);
      } else {
        high = CombineTwo(high, stats, scale_);
      }
    }
    return CombineLanes(CombineTwo(low, high, scale_), scale_);
  }
  __device__ __forceinline__ void Store(int group, std::int64_t row, std::int64_t valid,
                                        const Slice<In, kSkew, kLog>& slice, const Normalizer<C>& normalize) const {
    const std::int64_t column = Column(group);
    if (column >= params_.cols) return;
    slice.Store(static_cast<In*>(params_.output) + row * params_.output_stride + column, params_.cols - column,
                valid - column, column == 0, normalize);
  }

  const MatrixParams& params_;
  uint4* const shared_;
  Stats<C>* const table_;
  const Scale<C> scale_;
  const int team_;
  const int first_group_;
  const int last_group_;
  const int kept_;  // the first group that stays in shared memory
  const int warp_ = static_cast<int>(threadIdx.x) / 32;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  Slice<In, kSkew, kLog> slice_;
  std::int64_t row_ = 0;
  std::int64_t valid_ = 0;
};

// The last block to end leaves the counters as it found them.
__device__ __forceinline__ void ClearWorkspace(const MatrixParams& params) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::uint32_t* const workspace = params.completion.workspace;
  __threadfence();
  if (atomicAdd(workspace + kWorkspaceEnded, 1u) + 1 != gridDim.x) return;
  for (int team = 0; team < params.teams; ++team) workspace[kWorkspaceTeams + team] = 0;
  workspace[kWorkspaceEnded] = 0;
}

template <typename In, bool kSkew, bool kLog>
__global__ void __launch_bounds__(kMatrixThreads, 3) WideMatrixKernel(const __grid_constant__ MatrixParams params) {
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ Stats<ComputeOf<In>> table[kGroupChunks];
  WideRows<In, kSkew, kLog> rows(params, reinterpret_cast<uint4*>(dynamic), table);
  rows.Run();
  ClearWorkspace(params);
  EndBulkStores(params.completion);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
