#include "kernels/cuda/mixed_kernels.cuh"

namespace softmax::kernels::cuda {

const MixedKernels& Float32MixedKernels() { return MixedKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
