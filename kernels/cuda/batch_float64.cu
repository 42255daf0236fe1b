#include "kernels/cuda/batch_rows.cuh"

namespace softmax::kernels::cuda {

const BatchKernels& Float64BatchKernels() { return BatchKernelsOf<double>(); }

}  // namespace softmax::kernels::cuda
