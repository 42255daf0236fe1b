#include "kernels/cuda/mixed_kernels.cuh"

namespace softmax::kernels::cuda {

const MixedKernels& BFloat16MixedKernels() { return MixedKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
