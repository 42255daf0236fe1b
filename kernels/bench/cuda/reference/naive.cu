#include "kernels/bench/cuda/memory.h"
#include "kernels/bench/cuda/reference/common.cuh"
#include "kernels/bench/cuda/reference/naive.h"

namespace softmax::kernels::bench {
namespace {

constexpr int kThreads = 256;

template <typename T, typename Operator>
__global__ void ReduceRows(const T* input, float* result, std::int64_t cols) {
  const T* row = input + blockIdx.x * cols;
  float value = Operator::Identity();
  for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) value = Operator()(value, ToFloat(row[c]));
  value = ReduceBlock<Operator>(value);
  if (threadIdx.x == 0) result[blockIdx.x] = value;
}

struct Subtract {
  __device__ float operator()(float a, float b) const { return a - b; }
};
struct Exponential {
  __device__ float operator()(float a, float) const { return expf(a); }
};
struct Divide {
  __device__ float operator()(float a, float b) const { return a / b; }
};

// Each element with the number of its row.
template <typename T, typename Operator>
__global__ void MapElements(const T* input, const float* of_rows, T* output, std::int64_t count, std::int64_t cols) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) output[i] = FromFloat<T>(Operator()(ToFloat(input[i]), of_rows[i / cols]));
}

template <typename T>
cudaError_t Run(const Matrix& matrix, float* of_rows, cudaStream_t stream) {
  const auto* input = static_cast<const T*>(matrix.input);
  auto* output = static_cast<T*>(matrix.output);
  float* const maxima = of_rows;
  float* const sums = of_rows + matrix.rows;
  const std::int64_t count = matrix.rows * matrix.cols;
  const auto rows = static_cast<unsigned>(matrix.rows);
  const unsigned row_threads = BlockThreads(matrix.cols, 1, kThreads);
  const unsigned blocks = DivideUp(count, kThreads);
  ReduceRows<T, Max><<<rows, row_threads, 0, stream>>>(input, maxima, matrix.cols);
  MapElements<T, Subtract><<<blocks, kThreads, 0, stream>>>(input, maxima, output, count, matrix.cols);
  MapElements<T, Exponential><<<blocks, kThreads, 0, stream>>>(output, maxima, output, count, matrix.cols);
  ReduceRows<T, Sum><<<rows, row_threads, 0, stream>>>(output, sums, matrix.cols);
  MapElements<T, Divide><<<blocks, kThreads, 0, stream>>>(output, sums, output, count, matrix.cols);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchNaive(DataType dtype, const Matrix& matrix, cudaStream_t stream) {
  static Memory of_rows(Memory::Where::kDevice);
  of_rows.Reserve(2 * static_cast<std::size_t>(matrix.rows) * sizeof(float));
  return ForType(dtype, [&](auto* type) {
    return Run<std::remove_pointer_t<decltype(type)>>(matrix, reinterpret_cast<float*>(of_rows.data()), stream);
  });
}

}  // namespace softmax::kernels::bench
