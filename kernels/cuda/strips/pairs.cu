#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/strips/pairs.cuh"

namespace softmax::kernels::cuda {

const ColumnStreamKernels& SOFTMAX_OF_ELEMENT(StreamKernels)() { return PairsKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
