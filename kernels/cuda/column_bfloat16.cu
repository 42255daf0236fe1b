#include "kernels/cuda/column_kernels.cuh"

namespace softmax::kernels::cuda {

const ColumnKernels& BFloat16ColumnKernels() { return ColumnKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
