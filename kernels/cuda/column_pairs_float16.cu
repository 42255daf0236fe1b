#include "kernels/cuda/column_pairs.cuh"

namespace softmax::kernels::cuda {

const ColumnStreamKernels& Float16StreamKernels() { return PairsKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
