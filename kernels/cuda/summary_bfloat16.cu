#include "kernels/cuda/summary_kernel.cuh"

namespace softmax::kernels::cuda {

const void* BFloat16SummaryKernel() { return reinterpret_cast<const void*>(&SummaryKernel<__nv_bfloat16>); }

}  // namespace softmax::kernels::cuda
