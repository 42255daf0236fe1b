#pragma once

#include <cstdint>

// A thread's place in the launch, read again from special registers, so that nothing of it is kept while a warp adds
// up.
namespace softmax::kernels::cuda {

__device__ __forceinline__ int ThreadAgain() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
__device__ __forceinline__ std::uint32_t BlockAgain() {
  std::uint32_t block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
}
__device__ __forceinline__ int RankAgain() {
  int rank = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

// Blocks of so many threads that a multiprocessor has to hold, no more than it can.
constexpr int BlocksThatFit(int threads, int blocks) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  constexpr int kMostThreads = 1024;
#else
  constexpr int kMostThreads = 1536;
#endif
  return threads * blocks <= kMostThreads ? blocks : kMostThreads / threads;
}

}  // namespace softmax::kernels::cuda
