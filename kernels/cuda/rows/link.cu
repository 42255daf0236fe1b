#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/rows/link.cuh"

namespace softmax::kernels::cuda {

const LinkKernels& SOFTMAX_OF_ELEMENT(LinkKernels)() { return LinkKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
