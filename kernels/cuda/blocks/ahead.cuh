#pragma once

#include <cstdint>

#include "kernels/cuda/rows/matrix.h"

// A launch's input on its way before it is the launch's turn.
namespace softmax::kernels::cuda {

// Programmatic dependent launch (sm_90 and later; nothing elsewhere): a kernel's blocks may take their places while the
// launch before it in the stream still works, and wait there until it has ended.

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

// Of so many bytes in all, about what the blocks that a device holds at a time have.
constexpr int kAheadBytes = 24 << 20;

// By every block, before it waits for the launch before: brings its share of the input into the L2. That is no access:
// all that the device writes goes through the L2, so what the launch before writes there after that is what is read.
// It is one piece that is opaque to the compiler, so that kernels with just enough registers keep nothing for it. Those
// of doubles would spill nevertheless.
template <typename In>
__device__ __forceinline__ void AskAhead(const void* input, int bytes) {
#if __CUDA_ARCH__ >= 900
  if constexpr (sizeof(In) < 8) {
    asm volatile(
        "{\n .reg .pred p;\n .reg .b32 r;\n .reg .b64 at;\n"
        " mov.u32 r, %%tid.x;\n"
        " setp.eq.u32 p, r, 0;\n"
        " setp.gt.and.s32 p, %1, 0, p;\n"
        " mov.u32 r, %%ctaid.x;\n"
        " mul.wide.u32 at, r, %1;\n"
        " setp.lt.and.u64 p, at, %2, p;\n"
        " add.u64 at, at, %0;\n"
        " and.b64 at, at, -16;\n"
        " @p cp.async.bulk.prefetch.L2.global [at], %1;\n}" ::"l"(input),
        "r"(bytes), "n"(kAheadBytes)
        : "memory");
  }
#endif
}

template <typename In>
__device__ __forceinline__ void AskAhead(const MatrixParams& params) {
  AskAhead<In>(params.input, params.ahead_bytes);
}

}  // namespace softmax::kernels::cuda
