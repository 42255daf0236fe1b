#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/summary/kernel.cuh"

namespace softmax::kernels::cuda {

SummaryKernels SOFTMAX_OF_ELEMENT(SummaryKernels)() {
  return {reinterpret_cast<const void*>(&SmallSummaryKernel<SOFTMAX_ELEMENT>),
          reinterpret_cast<const void*>(&SummaryReadKernel<SOFTMAX_ELEMENT>),
          reinterpret_cast<const void*>(&SummaryRowKernel<SOFTMAX_ELEMENT>)};
}

}  // namespace softmax::kernels::cuda
