#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/general/kernel.cuh"

namespace softmax::kernels::cuda {

const KernelTable& SOFTMAX_OF_ELEMENT(Kernels)() { return KernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
