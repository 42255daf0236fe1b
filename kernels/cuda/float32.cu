#include "kernels/cuda/kernel.cuh"

namespace softmax::kernels::cuda {

const KernelTable& Float32Kernels() { return KernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
