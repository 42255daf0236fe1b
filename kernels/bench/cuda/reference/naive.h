#pragma once

#include "kernels/bench/cuda/reference/reference.h"

namespace softmax::kernels::bench {

// Maximum, difference, exponential, sum and quotient as five kernels that read and write memory, as array code without
// fusion runs. Keeps two floats a row in memory that it allocates at the first launch of so many rows.
cudaError_t LaunchNaive(DataType dtype, const Matrix& matrix, cudaStream_t stream);

}  // namespace softmax::kernels::bench
