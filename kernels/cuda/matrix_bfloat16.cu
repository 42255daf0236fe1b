#include "kernels/cuda/matrix_kernels.cuh"

namespace softmax::kernels::cuda {

const MatrixKernels& BFloat16MatrixKernels() { return MatrixKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
