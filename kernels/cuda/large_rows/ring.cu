#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/large_rows/ring.cuh"

namespace softmax::kernels::cuda {

const WideKernels& SOFTMAX_OF_ELEMENT(WideKernels)() { return WideKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
