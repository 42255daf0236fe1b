#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "kernels/bench/cuda/reference/reference.h"

namespace softmax::kernels::bench {

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__half x) { return __half2float(x); }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T FromFloat(float x) {
  return static_cast<T>(x);
}

// Neighbouring elements that move as one access, or two where they are wider than the widest.
template <typename T, int kSize>
struct alignas(sizeof(T) * kSize < 16 ? sizeof(T) * kSize : 16) Pack {
  T elements[kSize];
};

struct Max {
  static __device__ float Identity() { return -INFINITY; }
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  static __device__ float Identity() { return 0; }
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <typename Operator>
__device__ float ReduceWarp(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = Operator()(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  return value;
}

// For blocks of whole warps; every thread gets the result.
template <typename Operator>
__device__ float ReduceBlock(float value) {
  __shared__ float of_warps[32];
  value = ReduceWarp<Operator>(value);
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (warps == 1) return value;
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  value = ReduceWarp<Operator>(lane < warps ? of_warps[lane] : Operator::Identity());
  __syncthreads();  // the next call writes of_warps again
  return value;
}

// Calls run with a null pointer of the element type.
template <typename Run>
cudaError_t ForType(DataType dtype, const Run& run) {
  switch (dtype) {
    case DataType::kFloat32:
      return run(static_cast<float*>(nullptr));
    case DataType::kFloat16:
      return run(static_cast<__half*>(nullptr));
    case DataType::kBFloat16:
      return run(static_cast<__nv_bfloat16*>(nullptr));
    case DataType::kFloat64:
      break;
  }
  return cudaErrorNotSupported;
}

inline bool IsAligned(const Matrix& matrix, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(matrix.input) | reinterpret_cast<std::uintptr_t>(matrix.output);
  return start % bytes == 0;
}

inline unsigned DivideUp(std::int64_t a, std::int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

// So many threads that each takes a few columns.
inline unsigned BlockThreads(std::int64_t cols, std::int64_t columns_per_thread, std::int64_t most) {
  const std::int64_t wanted = (cols + columns_per_thread - 1) / columns_per_thread;
  const std::int64_t warps = (wanted + 31) / 32;
  return static_cast<unsigned>(warps * 32 < most ? warps * 32 : most);
}

}  // namespace softmax::kernels::bench
