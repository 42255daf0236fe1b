#include "kernels/cuda/column_lanes_kernels.cuh"

namespace softmax::kernels::cuda {

const ColumnLanesKernels& BFloat16ColumnLanesKernels() { return ColumnLanesKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
