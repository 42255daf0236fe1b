#include "kernels/cuda/tile_rows.cuh"

namespace softmax::kernels::cuda {

const TileKernels& Float32TileKernels() { return TileKernelsOf<float>(); }

}  // namespace softmax::kernels::cuda
