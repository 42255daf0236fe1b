#pragma once

#include <cstdint>

#include "kernels/cuda/column_exchange.cuh"
#include "kernels/cuda/team.cuh"

// The statistics of a row's chunks, brought together in every block of the team that shares the row: through the
// block's own shared memory, or sent to all blocks of a cluster, each of which waits for the bytes that must come.
namespace softmax::kernels::cuda {

template <typename C>
class ChunkTable {
 public:
  // In shared memory.
  struct Control {
    std::uint64_t barrier;
    Stats<C> row;
  };

  // `table`: an entry for each chunk, in shared memory; one row of a block's several.
  __device__ __forceinline__ ChunkTable(Stats<C>* table, Control* control, Team team)
      : table_(table), control_(control), team_(team), exchange_(&control->barrier) {}

  // By the whole block, early: `chunks` entries will come.
  __device__ __forceinline__ void Arrive(int chunks) const {
    if (!team_.IsCluster()) return;
    exchange_.Expect(chunks * static_cast<int>(sizeof(Stats<C>)));
    ClusterExchange::Arrive();
  }
  // By the whole block, before the first Publish.
  __device__ __forceinline__ void Begin() const {
    if (team_.IsCluster()) exchange_.Begin();
  }
  // By a whole warp with the same arguments.
  __device__ __forceinline__ void Publish(int entry, const Stats<C>& stats) const {
    if (team_.IsCluster()) {
      exchange_.SendFromWarp(table_ + entry, stats, team_.blocks);
    } else if (threadIdx.x % 32 == 0) {
      table_[entry] = stats;
    }
  }
  // By the whole block: the statistics of the row whose chunks are the entries from `first` on. Where folding them is
  // long, one warp does it for the block.
  __device__ __forceinline__ Stats<C> Fold(int first, int chunks, const Scale<C>& scale) const {
    const bool by_all = chunks <= kFoldedByAll;
    if (!team_.IsCluster()) __syncthreads();
    Stats<C> stats;
    if (by_all || threadIdx.x < 32) {
      if (team_.IsCluster()) exchange_.Wait();
      stats = FoldFlat(table_ + first, chunks, static_cast<int>(threadIdx.x) % 32, scale);
    }
    if (by_all) return stats;
    if (threadIdx.x == 0) control_->row = stats;
    __syncthreads();
    return control_->row;
  }
  // The same by the `warps` warps that share the row which is `side` in its block; others need not wait for them.
  __device__ __forceinline__ Stats<C> FoldSide(int side, int warps, int chunks, const Scale<C>& scale) const {
    if (warps == 1) {
      __syncwarp();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(side + 1), "r"(warps * 32) : "memory");
    }
    return FoldFlat(table_ + side * chunks, chunks, static_cast<int>(threadIdx.x) % 32, scale);
  }

 private:
  // Up to so many, a barrier more takes longer than what the warps take from each other.
  static constexpr int kFoldedByAll = 128;

  Stats<C>* table_;
  Control* control_;
  Team team_;
  ClusterExchange exchange_;
};

}  // namespace softmax::kernels::cuda
