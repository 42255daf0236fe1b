#include "kernels/cuda/summary_kernel.cuh"

namespace softmax::kernels::cuda {

const void* Float32SummaryKernel() { return reinterpret_cast<const void*>(&SummaryKernel<float>); }

}  // namespace softmax::kernels::cuda
