#include "kernels/cuda/column_kernels.cuh"

namespace softmax::kernels::cuda {

const ColumnKernels& Float16ColumnKernels() { return ColumnKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
