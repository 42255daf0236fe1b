#include "kernels/cuda/columns/kernels.cuh"
#include "kernels/cuda/core/instance.h"

namespace softmax::kernels::cuda {

const ColumnKernels& SOFTMAX_OF_ELEMENT(ColumnKernels)() { return ColumnKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
