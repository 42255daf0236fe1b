#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/rows/matrix_kernels.cuh"

namespace softmax::kernels::cuda {

const MatrixKernels& SOFTMAX_OF_ELEMENT(MatrixKernels)() { return MatrixKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
