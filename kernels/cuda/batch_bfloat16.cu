#include "kernels/cuda/batch_rows.cuh"

namespace softmax::kernels::cuda {

const BatchKernels& BFloat16BatchKernels() { return BatchKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
