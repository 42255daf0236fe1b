#include "kernels/cuda/column_pairs.cuh"

namespace softmax::kernels::cuda {

const ColumnStreamKernels& BFloat16StreamKernels() { return PairsKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
