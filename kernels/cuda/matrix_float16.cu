#include "kernels/cuda/matrix_kernels.cuh"

namespace softmax::kernels::cuda {

const MatrixKernels& Float16MatrixKernels() { return MatrixKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
