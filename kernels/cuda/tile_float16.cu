#include "kernels/cuda/matrix_ring.cuh"
#include "kernels/cuda/tile_rows.cuh"

namespace softmax::kernels::cuda {

const TileKernels& Float16TileKernels() { return TileKernelsOf<__half>(); }
const WideKernels& Float16WideKernels() { return WideKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
