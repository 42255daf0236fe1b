#include "kernels/cuda/mixed_kernels.cuh"

namespace softmax::kernels::cuda {

const MixedKernels& Float16MixedKernels() { return MixedKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
