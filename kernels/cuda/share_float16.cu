#include "kernels/cuda/matrix_share.cuh"

namespace softmax::kernels::cuda {

const ShareKernels& Float16ShareKernels() { return ShareKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
