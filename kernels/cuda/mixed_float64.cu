#include "kernels/cuda/mixed_kernels.cuh"

namespace softmax::kernels::cuda {

const MixedKernels& Float64MixedKernels() {
  static const MixedKernels kernels{{},
                                    {},
                                    {},
                                    {reinterpret_cast<const void*>(&BulkMatrixKernel<double, false, true>),
                                     reinterpret_cast<const void*>(&BulkMatrixKernel<double, true, true>)},
                                    {},
                                    BatchMixed<double>()};
  return kernels;
}

}  // namespace softmax::kernels::cuda
