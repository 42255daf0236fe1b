#include "kernels/cuda/matrix_ring.cuh"
#include "kernels/cuda/tile_rows.cuh"

namespace softmax::kernels::cuda {

const TileKernels& Float32TileKernels() { return TileKernelsOf<float>(); }
const WideKernels& Float32WideKernels() { return WideKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
