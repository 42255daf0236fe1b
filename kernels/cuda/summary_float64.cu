#include "kernels/cuda/summary_kernel.cuh"

namespace softmax::kernels::cuda {

const void* Float64SummaryKernel() { return reinterpret_cast<const void*>(&SummaryKernel<double>); }

}  // namespace softmax::kernels::cuda
