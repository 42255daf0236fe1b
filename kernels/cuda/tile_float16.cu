#include "kernels/cuda/tile_rows.cuh"

namespace softmax::kernels::cuda {

const TileKernels& Float16TileKernels() { return TileKernelsOf<__half>(); }

}  // namespace softmax::kernels::cuda
