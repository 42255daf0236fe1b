#pragma once

#include <cstdint>

#include "kernels/cuda/core/math.cuh"

// The blocks that share a row: one block, or those of a cluster, which the host asks for on sm_90 and later alone.
namespace softmax::kernels::cuda {

struct Team {
  int blocks;  // 1: no cluster

  __device__ __forceinline__ bool IsCluster() const { return blocks > 1; }

  __device__ __forceinline__ int Rank() const {
#if __CUDA_ARCH__ >= 900
    if (IsCluster()) return static_cast<int>(__clusterRelativeBlockRank());
#endif
    return 0;
  }
  // Makes what was written to any member's shared memory visible to all of them.
  __device__ __forceinline__ void Sync() const {
#if __CUDA_ARCH__ >= 900
    if (IsCluster()) {
      __cluster_barrier_arrive();
      __cluster_barrier_wait();
      return;
    }
#endif
    __syncthreads();
  }
  // Writes *slot in every member's shared memory; called by a whole warp with the same arguments.
  template <typename T>
  __device__ __forceinline__ void Publish(T* slot, const T& value) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#if __CUDA_ARCH__ >= 900
    if (lane < blocks) *static_cast<T*>(__cluster_map_shared_rank(slot, IsCluster() ? lane : 0)) = value;
#else
    if (lane == 0) *slot = value;
#endif
  }
};

}  // namespace softmax::kernels::cuda
