#include "kernels/cuda/batch_rows.cuh"

namespace softmax::kernels::cuda {

const BatchKernels& Float16BatchKernels() { return BatchKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
