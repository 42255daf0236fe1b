#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bench/cuda/reference/reference.h"

namespace softmax::kernels::bench {

// A block takes 2, 4 or 8 rows, a warp one or two of them at a time, in accesses of 1, 2, 4 or 8 elements. The variants
// whose accesses a shape does not allow are not supported for it.
inline constexpr std::int64_t kRowsPerBlockColumns = 1024;
std::vector<ReferenceKernel> RowsPerBlockVariants();

// A warp holds a row in registers.
inline constexpr std::int64_t kWarpColumns = 1024;
cudaError_t LaunchWarp(DataType dtype, const Matrix& matrix, cudaStream_t stream);

}  // namespace softmax::kernels::bench
