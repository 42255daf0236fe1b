#include "kernels/bench/cuda/reference/block_rows.h"
#include "kernels/bench/cuda/reference/common.cuh"

namespace softmax::kernels::bench {
namespace {

constexpr int kMostThreads = 1024;

// Calls visit(column, value) for the thread's share of the row, 16 bytes at a time where kPackSize says so.
template <typename T, int kPackSize, typename Visit>
__device__ void ForColumns(const T* row, std::int64_t cols, const Visit& visit) {
  using P = Pack<T, kPackSize>;
  const P* packs = reinterpret_cast<const P*>(row);
  for (std::int64_t p = threadIdx.x; p * kPackSize < cols; p += blockDim.x) {
    const P pack = packs[p];
#pragma unroll
    for (int e = 0; e < kPackSize; ++e) visit(p * kPackSize + e, ToFloat(pack.elements[e]));
  }
}

template <typename T, int kPackSize, typename Value>
__device__ void StoreColumns(T* row, std::int64_t cols, const Value& value) {
  using P = Pack<T, kPackSize>;
  P* packs = reinterpret_cast<P*>(row);
  for (std::int64_t p = threadIdx.x; p * kPackSize < cols; p += blockDim.x) {
    P pack;
#pragma unroll
    for (int e = 0; e < kPackSize; ++e) pack.elements[e] = FromFloat<T>(value(p * kPackSize + e));
    packs[p] = pack;
  }
}

// In shared memory the columns of one access lie apart, so that neighbouring threads meet different banks.
template <int kPackSize>
__device__ std::int64_t Place(std::int64_t column, std::int64_t cols) {
  return column % kPackSize * (cols / kPackSize) + column / kPackSize;
}

template <typename T, int kPackSize>
__global__ void __launch_bounds__(kMostThreads) SmemKernel(const T* input, T* output, std::int64_t cols) {
  extern __shared__ float held[];
  float max = -INFINITY;
  ForColumns<T, kPackSize>(input + blockIdx.x * cols, cols, [&](std::int64_t c, float x) {
    held[Place<kPackSize>(c, cols)] = x;
    max = fmaxf(max, x);
  });
  max = ReduceBlock<Max>(max);
  // Each thread comes back to the columns that it stored itself.
  float sum = 0;
  for (std::int64_t p = threadIdx.x; p * kPackSize < cols; p += blockDim.x) {
#pragma unroll
    for (int e = 0; e < kPackSize; ++e) {
      float& x = held[Place<kPackSize>(p * kPackSize + e, cols)];
      x = expf(x - max);
      sum += x;
    }
  }
  sum = ReduceBlock<Sum>(sum);
  StoreColumns<T, kPackSize>(output + blockIdx.x * cols, cols,
                             [&](std::int64_t c) { return held[Place<kPackSize>(c, cols)] / sum; });
}

template <typename T, int kPackSize>
__global__ void __launch_bounds__(kMostThreads) UncachedKernel(const T* input, T* output, std::int64_t cols) {
  const T* row = input + blockIdx.x * cols;
  float max = -INFINITY;
  ForColumns<T, kPackSize>(row, cols, [&](std::int64_t, float x) { max = fmaxf(max, x); });
  max = ReduceBlock<Max>(max);
  float sum = 0;
  ForColumns<T, kPackSize>(row, cols, [&](std::int64_t, float x) { sum += expf(x - max); });
  sum = ReduceBlock<Sum>(sum);
  StoreColumns<T, kPackSize>(output + blockIdx.x * cols, cols,
                             [&](std::int64_t c) { return expf(ToFloat(row[c]) - max) / sum; });
}

template <typename T, int kPackSize>
cudaError_t RunSmem(const Matrix& matrix, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(matrix.cols) * sizeof(float);
  const cudaError_t error = cudaFuncSetAttribute(SmemKernel<T, kPackSize>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(bytes));
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return cudaErrorNotSupported;
  }
  SmemKernel<T, kPackSize>
      <<<static_cast<unsigned>(matrix.rows), BlockThreads(matrix.cols, 8, kMostThreads), bytes, stream>>>(
          static_cast<const T*>(matrix.input), static_cast<T*>(matrix.output), matrix.cols);
  return cudaGetLastError();
}

template <typename T, int kPackSize>
cudaError_t RunUncached(const Matrix& matrix, cudaStream_t stream) {
  UncachedKernel<T, kPackSize>
      <<<static_cast<unsigned>(matrix.rows), BlockThreads(matrix.cols, kPackSize, kMostThreads), 0, stream>>>(
          static_cast<const T*>(matrix.input), static_cast<T*>(matrix.output), matrix.cols);
  return cudaGetLastError();
}

bool CanPack(DataType dtype, const Matrix& matrix) {
  return matrix.cols * static_cast<std::int64_t>(SizeOf(dtype)) % 16 == 0 && IsAligned(matrix, 16);
}

}  // namespace

std::int64_t BlockSmemColumns() {
  constexpr int kForReductions = 1024;
  int device = 0;
  int bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
    return 0;
  }
  return (bytes - kForReductions) / static_cast<std::int64_t>(sizeof(float));
}

cudaError_t LaunchBlockSmem(DataType dtype, const Matrix& matrix, cudaStream_t stream) {
  return ForType(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return CanPack(dtype, matrix) ? RunSmem<T, 16 / sizeof(T)>(matrix, stream) : RunSmem<T, 1>(matrix, stream);
  });
}

cudaError_t LaunchBlockUncached(DataType dtype, const Matrix& matrix, cudaStream_t stream) {
  return ForType(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return CanPack(dtype, matrix) ? RunUncached<T, 16 / sizeof(T)>(matrix, stream) : RunUncached<T, 1>(matrix, stream);
  });
}

}  // namespace softmax::kernels::bench
