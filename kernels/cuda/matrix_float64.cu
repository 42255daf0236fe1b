#include "kernels/cuda/matrix_bulk.cuh"
#include "kernels/cuda/matrix_kernels.cuh"
#include "kernels/cuda/tile.h"

namespace softmax::kernels::cuda {

const MatrixKernels& Float64MatrixKernels() { return MatrixKernelsOf<double>(); }

const TileKernels& Float64TileKernels() {
  static const TileKernels kernels{{},
                                   {reinterpret_cast<const void*>(&BulkMatrixKernel<double, false>),
                                    reinterpret_cast<const void*>(&BulkMatrixKernel<double, true>)},
                                   {},
                                   {},
                                   {}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
