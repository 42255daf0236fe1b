#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/softmax.h"

namespace softmax::kernels::cuda {

// Called by kernels that store by bulk copies, before they end or Complete(): a block's shared memory has to outlive
// their reads, and a flag is set after their stores.
__device__ __forceinline__ void EndBulkStores(const Completion& completion) {
  if (completion.flag == nullptr) {
    WaitForBulkReads();
  } else {
    WaitForBulkStores();
  }
}

// Counts the blocks that are done; the last one clears the counter and stores the flag. The barrier and the fence order
// all stores of all blocks before it.
__device__ __forceinline__ void Complete(const Completion& completion) {
  if (completion.flag == nullptr) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (gridDim.x > 1) {
    __threadfence_system();
    if (atomicAdd(completion.workspace, 1u) + 1 != gridDim.x) return;
    *completion.workspace = 0;
  }
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(completion.flag), "r"(completion.value) : "memory");
}

}  // namespace softmax::kernels::cuda
