#include "kernels/cuda/column_lanes_kernels.cuh"

namespace softmax::kernels::cuda {

const ColumnLanesKernels& Float16ColumnLanesKernels() { return ColumnLanesKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
