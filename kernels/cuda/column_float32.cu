#include "kernels/cuda/column_kernels.cuh"

namespace softmax::kernels::cuda {

const ColumnKernels& Float32ColumnKernels() { return ColumnKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
