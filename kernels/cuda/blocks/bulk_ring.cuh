#pragma once

#include <cstdint>

#include "kernels/cuda/blocks/bulk.cuh"

// Barriers of bulk copies that serve again and again (sm_90 and later; nothing elsewhere).
namespace softmax::kernels::cuda {

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
