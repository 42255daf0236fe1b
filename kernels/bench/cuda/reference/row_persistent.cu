#include <algorithm>

#include "kernels/bench/cuda/reference/common.cuh"
#include "kernels/bench/cuda/reference/row_persistent.h"

namespace softmax::kernels::bench {
namespace {

constexpr int kMostThreads = 1024;

// The padded row is kValues * blockDim.x columns wide.
template <typename T, int kValues>
__global__ void __launch_bounds__(kMostThreads) RowKernel(const T* input, T* output, std::int64_t rows, int cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float x[kValues];
    float max = -INFINITY;
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const int c = static_cast<int>(threadIdx.x + i * blockDim.x);
      x[i] = c < cols ? ToFloat(input[row * cols + c]) : -INFINITY;
      max = fmaxf(max, x[i]);
    }
    max = ReduceBlock<Max>(max);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      x[i] = __expf(x[i] - max);
      sum += x[i];
    }
    sum = ReduceBlock<Sum>(sum);
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const int c = static_cast<int>(threadIdx.x + i * blockDim.x);
      if (c < cols) output[row * cols + c] = FromFloat<T>(x[i] / sum);
    }
  }
}

template <typename T, int kValues>
cudaError_t Run(const Matrix& matrix, int threads, cudaStream_t stream) {
  int device = 0;
  int multiprocessors = 0;
  int blocks = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, RowKernel<T, kValues>, threads, 0);
  }
  if (error != cudaSuccess) return error;
  const auto grid = static_cast<unsigned>(std::min<std::int64_t>(matrix.rows, multiprocessors * blocks));
  RowKernel<T, kValues><<<grid, threads, 0, stream>>>(
      static_cast<const T*>(matrix.input), static_cast<T*>(matrix.output), matrix.rows, static_cast<int>(matrix.cols));
  return cudaGetLastError();
}

template <typename T>
cudaError_t RunPadded(const Matrix& matrix, cudaStream_t stream) {
  int padded = 32;
  while (padded < matrix.cols) padded *= 2;
  const int threads = std::clamp(padded / 8, 32, kMostThreads);
  switch (padded / threads) {
    case 1:
      return Run<T, 1>(matrix, threads, stream);
    case 2:
      return Run<T, 2>(matrix, threads, stream);
    case 4:
      return Run<T, 4>(matrix, threads, stream);
    case 8:
      return Run<T, 8>(matrix, threads, stream);
    case 16:
      return Run<T, 16>(matrix, threads, stream);
    case 32:
      return Run<T, 32>(matrix, threads, stream);
    default:
      return cudaErrorNotSupported;
  }
}

}  // namespace

cudaError_t LaunchRowPersistent(DataType dtype, const Matrix& matrix, cudaStream_t stream) {
  if (matrix.cols > kRowPersistentColumns) return cudaErrorNotSupported;
  return ForType(dtype, [&](auto* type) { return RunPadded<std::remove_pointer_t<decltype(type)>>(matrix, stream); });
}

}  // namespace softmax::kernels::bench
