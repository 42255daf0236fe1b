#include "kernels/cuda/matrix_link.cuh"

namespace softmax::kernels::cuda {

const LinkKernels& BFloat16LinkKernels() { return LinkKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
