#pragma once

#include <cstdint>

// Bulk copies into shared memory with barriers that serve again and again (sm_90 and later; nothing elsewhere).
namespace softmax::kernels::cuda {

// By one thread, before others look at the barrier.
__device__ __forceinline__ void StartBarrier(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
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

// Whether the barrier's phase of this parity has ended.
__device__ __forceinline__ bool HasBulkLoad(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done = 1;
#if __CUDA_ARCH__ >= 900
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile(
      "{\n .reg .pred p;\n"
      " mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      " selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(at), "r"(parity)
      : "memory");
#endif
  return done != 0;
}

}  // namespace softmax::kernels::cuda
