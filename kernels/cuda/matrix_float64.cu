#include "kernels/cuda/matrix_kernels.cuh"

namespace softmax::kernels::cuda {

const MatrixKernels& Float64MatrixKernels() { return MatrixKernelsOf<double>(); }

}  // namespace softmax::kernels::cuda
