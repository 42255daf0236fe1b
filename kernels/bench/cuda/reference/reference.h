#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

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

// Maximum, difference, exponential, sum and quotient as five kernels that read and write memory, as array code without
// fusion runs. Keeps two floats a row in memory that it allocates at the first launch of so many rows.
cudaError_t LaunchNaive(DataType dtype, const Matrix& matrix, cudaStream_t stream);

// A block takes one row at a time and holds it in registers, padded to a power of two; blocks stay and walk over the
// rows.
inline constexpr std::int64_t kRowPersistentColumns = 32768;
cudaError_t LaunchRowPersistent(DataType dtype, const Matrix& matrix, cudaStream_t stream);

// A block takes 2, 4 or 8 rows, a warp one or two of them at a time, in accesses of 1, 2, 4 or 8 elements. The variants
// whose accesses a shape does not allow are not supported for it.
inline constexpr std::int64_t kRowsPerBlockColumns = 1024;
std::vector<ReferenceKernel> RowsPerBlockVariants();

// A warp holds a row in registers.
inline constexpr std::int64_t kWarpColumns = 1024;
cudaError_t LaunchWarp(DataType dtype, const Matrix& matrix, cudaStream_t stream);

// A block keeps its row in shared memory as fp32, of which the device sets how much there is.
std::int64_t BlockSmemColumns();
cudaError_t LaunchBlockSmem(DataType dtype, const Matrix& matrix, cudaStream_t stream);

// A block reads its row three times.
cudaError_t LaunchBlockUncached(DataType dtype, const Matrix& matrix, cudaStream_t stream);

}  // namespace softmax::kernels::bench
