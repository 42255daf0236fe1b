#pragma once

#include <cstdint>

#include "kernels/bench/cuda/reference/reference.h"

namespace softmax::kernels::bench {

// A block keeps its row in shared memory as fp32, of which the device sets how much there is.
std::int64_t BlockSmemColumns();
cudaError_t LaunchBlockSmem(DataType dtype, const Matrix& matrix, cudaStream_t stream);

// A block reads its row three times.
cudaError_t LaunchBlockUncached(DataType dtype, const Matrix& matrix, cudaStream_t stream);

}  // namespace softmax::kernels::bench
