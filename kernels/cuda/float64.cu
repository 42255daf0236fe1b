#include "kernels/cuda/kernel.cuh"

namespace softmax::kernels::cuda {

const KernelTable& Float64Kernels() { return KernelsOf<double>(); }

}  // namespace softmax::kernels::cuda
