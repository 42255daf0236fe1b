#include "kernels/cuda/kernel.cuh"

namespace softmax::kernels::cuda {

const KernelTable& Float16Kernels() { return KernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
