#include "kernels/cuda/column_lanes_kernels.cuh"

namespace softmax::kernels::cuda {

const ColumnLanesKernels& Float32ColumnLanesKernels() { return ColumnLanesKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
