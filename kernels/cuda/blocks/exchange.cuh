#pragma once

#include <cstdint>

#include "kernels/cuda/core/math.cuh"

// How the blocks of a cluster exchange statistics (sm_90 and later): each sends its own to all of them, itself
// included, and waits until as many bytes have come as there are. Nobody waits for what does not concern it.
namespace softmax::kernels::cuda {

__device__ __forceinline__ std::uint32_t SharedAddress(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Until the phase of this parity of a barrier in the block's shared memory has ended and what was sent can be seen.
__device__ __forceinline__ void WaitForPhase(std::uint32_t barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n .reg .pred p;\n"
        " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        " selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
#endif
}

class ClusterExchange {
 public:
  __device__ __forceinline__ explicit ClusterExchange(std::uint64_t* barrier) : barrier_(SharedAddress(barrier)) {}

  // By the whole block, before it arrives: `bytes` will come to each member.
  __device__ __forceinline__ void Expect(int bytes) const {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_), "r"(bytes) : "memory");
    }
#endif
  }
  // By the whole block, once for all its exchanges, before any member sends.
  static __device__ __forceinline__ void Arrive() {
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  }
  // Until all members have arrived.
  static __device__ __forceinline__ void Begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  }
  // Writes *slot of every member, by a whole warp with the same arguments: a lane for each member.
  template <typename C>
  __device__ __forceinline__ void SendFromWarp(Stats<C>* slot, const Stats<C>& stats, int members) const {
#if __CUDA_ARCH__ >= 900
    const int member = static_cast<int>(threadIdx.x) % 32;
    if (member >= members) return;
    std::uint32_t to, barrier;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(SharedAddress(slot)), "r"(member));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(barrier_), "r"(member));
    if constexpr (sizeof(C) == 4) {
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to),
                   "f"(stats.max), "f"(stats.sum), "r"(barrier)
                   : "memory");
    } else {
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f64 [%0], {%1, %2}, [%3];" ::"r"(to),
                   "d"(stats.max), "d"(stats.sum), "r"(barrier)
                   : "memory");
    }
#endif
  }
  // Until everything has come.
  __device__ __forceinline__ void Wait() const { WaitForPhase(barrier_, 0); }

 private:
  std::uint32_t barrier_;
};

}  // namespace softmax::kernels::cuda
