#include "kernels/cuda/kernel.cuh"

namespace softmax::kernels::cuda {

const KernelTable& BFloat16Kernels() { return KernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
