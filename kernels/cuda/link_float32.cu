#include "kernels/cuda/matrix_link.cuh"

namespace softmax::kernels::cuda {

const LinkKernels& Float32LinkKernels() { return LinkKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
