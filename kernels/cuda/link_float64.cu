#include "kernels/cuda/matrix_link.cuh"

namespace softmax::kernels::cuda {

const LinkKernels& Float64LinkKernels() { return LinkKernelsOf<double>(); }

}  // namespace softmax::kernels::cuda
