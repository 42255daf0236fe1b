#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/cuda/core/math.cuh"

// The blocks that share a row: one block, or the blocks of a cluster (sm_90 and later; the host asks for one only
// there).
namespace softmax::kernels::cuda {

struct Team {
  int blocks;  // 1: no cluster

  __device__ bool IsCluster() const { return blocks > 1; }

  __device__ int Rank() const {
#if __CUDA_ARCH__ >= 900
    if (IsCluster()) return static_cast<int>(cooperative_groups::this_cluster().block_rank());
#endif
    return 0;
  }
  // Makes what was written to any member's shared memory visible to all of them.
  __device__ void Sync() const {
#if __CUDA_ARCH__ >= 900
    if (IsCluster()) {
      cooperative_groups::this_cluster().sync();
      return;
    }
#endif
    __syncthreads();
  }
  // Before the first Publish: the members must have started. Arrive early, wait late.
  __device__ void Arrive() const {
#if __CUDA_ARCH__ >= 900
    if (IsCluster()) cooperative_groups::this_cluster().barrier_arrive();
#endif
  }
  __device__ void Wait() const {
#if __CUDA_ARCH__ >= 900
    if (IsCluster()) cooperative_groups::this_cluster().barrier_wait();
#endif
  }
  // Writes *slot in every member's shared memory; called by a whole warp with the same arguments.
  template <typename T>
  __device__ void Publish(T* slot, const T& value) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#if __CUDA_ARCH__ >= 900
    if (IsCluster()) {
      if (lane < blocks) *cooperative_groups::this_cluster().map_shared_rank(slot, lane) = value;
      return;
    }
#endif
    if (lane == 0) *slot = value;
  }
};

}  // namespace softmax::kernels::cuda
