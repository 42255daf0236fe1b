#include "kernels/cuda/column_kernels.cuh"

namespace softmax::kernels::cuda {

const ColumnKernels& Float64ColumnKernels() { return ColumnKernelsOf<double>(); }

}  // namespace softmax::kernels::cuda
