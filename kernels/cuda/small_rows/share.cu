#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/small_rows/share.cuh"

namespace softmax::kernels::cuda {

const ShareKernels& SOFTMAX_OF_ELEMENT(ShareKernels)() { return ShareKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
