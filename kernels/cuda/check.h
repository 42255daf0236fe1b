#pragma once

#include <cuda_runtime_api.h>

#include "kernels/types.h"

namespace softmax::kernels::cuda {

// The argument rules of kernels/softmax.h.
bool IsSupported(DataType type);
cudaError_t CheckSegment(DataType input_type, DataType output_type, const Segment& segment);

// A checked segment without elements: nothing to do.
inline bool IsEmpty(const Segment& s) { return s.outer == 0 || s.cols == 0 || s.inner == 0; }

}  // namespace softmax::kernels::cuda
