#include "kernels/cuda/matrix_bulk.cuh"
#include "kernels/cuda/matrix_kernels.cuh"
#include "kernels/cuda/matrix_single.cuh"
#include "kernels/cuda/tile.h"

namespace softmax::kernels::cuda {

const MatrixKernels& Float64MatrixKernels() { return MatrixKernelsOf<double>(); }

const TileKernels& Float64TileKernels() {
#define SOFTMAX_SINGLE(size) \
  { SingleMatrix<size, false>(), SingleMatrix<size, true>() }
  static const TileKernels kernels{{},
                                   {reinterpret_cast<const void*>(&BulkMatrixKernel<double, false>),
                                    reinterpret_cast<const void*>(&BulkMatrixKernel<double, true>)},
                                   {},
                                   {},
                                   {},
                                   {},
                                   nullptr,
                                   {SOFTMAX_SINGLE(0), SOFTMAX_SINGLE(1), SOFTMAX_SINGLE(2), SOFTMAX_SINGLE(3),
                                    SOFTMAX_SINGLE(4), SOFTMAX_SINGLE(5)},
                                   {reinterpret_cast<const void*>(&SinglePairKernel<false>),
                                    reinterpret_cast<const void*>(&SinglePairKernel<true>)}};
#undef SOFTMAX_SINGLE
  return kernels;
}

}  // namespace softmax::kernels::cuda
