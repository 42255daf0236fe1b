#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "kernels/types.h"

// Well known ways to write a softmax kernel, in their plain form, to compare with. fp32, fp16 and bf16, dense rows,
// softmax only. Each returns what the launch returned, cudaErrorNotSupported for a shape it is not made for.
namespace softmax::kernels::bench {

struct Matrix {
  const void* input = nullptr;
  void* output = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

using ReferenceKernel = std::function<cudaError_t(DataType dtype, const Matrix& matrix, cudaStream_t stream)>;

}  // namespace softmax::kernels::bench
