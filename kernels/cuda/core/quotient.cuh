#pragma once

namespace softmax::kernels::cuda {

// a / b of numbers from 0 to 2^20 and from 1 to 2^10, in a third of the instructions that any two integers take: the
// quotient of floats is off by less than the half that a has more.
__device__ __forceinline__ int SmallQuotient(int a, int b) {
  return static_cast<int>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b)));
}

}  // namespace softmax::kernels::cuda
