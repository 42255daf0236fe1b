#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/softmax.h"

// Bulk copies between shared and global memory (sm_90 and later; nothing elsewhere). Addresses and sizes are multiples
// of 16 bytes. Each thread waits for the stores that it started itself.
namespace softmax::kernels::cuda {

// What this thread wrote to shared memory is seen by copies that are started from here on.
__device__ __forceinline__ void FenceForBulkCopies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// By one thread, before others look at the barrier. `arrivals`: that end a phase.
__device__ __forceinline__ void StartBarrier(std::uint64_t* barrier, int arrivals = 1) {
#if __CUDA_ARCH__ >= 900
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// By one thread: a phase of the barrier ends when the bytes, which may be none, are there.
__device__ __forceinline__ void StartBulkLoad(void* shared, const void* from, int bytes, std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes > 0 ? bytes : 0)
               : "memory");
  if (bytes > 0) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(at)
                 : "memory");
  }
#endif
}

// Until what StartBulkLoad() copies is there.
__device__ __forceinline__ void WaitForBulkLoad(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n .reg .pred p;\n"
        " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
        " selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(at)
        : "memory");
  }
#endif
}

__device__ __forceinline__ void StoreBulk(void* to, const void* shared, int bytes) {
#if __CUDA_ARCH__ >= 900
  const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

// Until the copies have read their shared memory, which may then be written again.
__device__ __forceinline__ void WaitForBulkReads() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

// Until what they wrote is visible to this thread.
__device__ __forceinline__ void WaitForBulkStores() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

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
