#include "kernels/cuda/strips/stream.cuh"

namespace softmax::kernels::cuda {

const ColumnStreamKernels& Float32StreamKernels() {
  static const ColumnStreamKernels kernels = {
      {{reinterpret_cast<const void*>(&ColumnStreamKernel<false, false>),
        reinterpret_cast<const void*>(&ColumnStreamKernel<true, false>)},
       {reinterpret_cast<const void*>(&ColumnStreamKernel<false, true>), nullptr}}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
