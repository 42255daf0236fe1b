#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/strips/lanes_kernels.cuh"

namespace softmax::kernels::cuda {

const ColumnLanesKernels& SOFTMAX_OF_ELEMENT(ColumnLanesKernels)() { return ColumnLanesKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
