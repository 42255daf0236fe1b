#pragma once

#include <cstdint>

#include "kernels/bench/cuda/reference/reference.h"

namespace softmax::kernels::bench {

// A block takes one row at a time and holds it in registers, padded to a power of two; blocks stay and walk over the
// rows.
inline constexpr std::int64_t kRowPersistentColumns = 32768;
cudaError_t LaunchRowPersistent(DataType dtype, const Matrix& matrix, cudaStream_t stream);

}  // namespace softmax::kernels::bench
