#include "kernels/cuda/matrix_share.cuh"

namespace softmax::kernels::cuda {

const ShareKernels& BFloat16ShareKernels() { return ShareKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
