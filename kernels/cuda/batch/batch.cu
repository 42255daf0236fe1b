#include "kernels/cuda/batch/rows.cuh"
#include "kernels/cuda/core/instance.h"

namespace softmax::kernels::cuda {

const BatchKernels& SOFTMAX_OF_ELEMENT(BatchKernels)() { return BatchKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
