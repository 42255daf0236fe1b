#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/rows/mixed_kernels.cuh"

namespace softmax::kernels::cuda {

const MixedKernels& SOFTMAX_OF_ELEMENT(MixedKernels)() { return MixedKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
