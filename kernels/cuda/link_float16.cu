#include "kernels/cuda/matrix_link.cuh"

namespace softmax::kernels::cuda {

const LinkKernels& Float16LinkKernels() { return LinkKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
