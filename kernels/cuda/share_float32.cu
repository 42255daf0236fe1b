#include "kernels/cuda/matrix_share.cuh"

namespace softmax::kernels::cuda {

const ShareKernels& Float32ShareKernels() { return ShareKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
