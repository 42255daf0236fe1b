#pragma once

#include <cstdint>

// Bulk copies from shared to global memory (sm_90 and later; nothing elsewhere). Addresses and sizes are multiples of
// 16 bytes. Each thread waits for the copies that it started itself.
namespace softmax::kernels::cuda {

// What this thread wrote to shared memory is seen by copies that are started from here on.
__device__ __forceinline__ void FenceForBulkCopies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
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

}  // namespace softmax::kernels::cuda
