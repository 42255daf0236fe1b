#include "kernels/cuda/matrix_kernels.cuh"

namespace softmax::kernels::cuda {

const MatrixKernels& Float32MatrixKernels() { return MatrixKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
