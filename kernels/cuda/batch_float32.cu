#include "kernels/cuda/batch_rows.cuh"

namespace softmax::kernels::cuda {

const BatchKernels& Float32BatchKernels() { return BatchKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
