#pragma once

// Programmatic dependent launch (sm_90 and later; nothing elsewhere): a kernel's blocks may take their places while the
// launch before it in the stream still works, and wait there until it has ended.
namespace softmax::kernels::cuda {

// Before the first access to memory that others may write or read: until all launches before this one have ended and
// what they wrote can be seen.
__device__ __forceinline__ void WaitForEarlierLaunches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on the next launch may take its places. After the wait, so that only one launch is ahead of its turn.
__device__ __forceinline__ void AllowNextLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace softmax::kernels::cuda
