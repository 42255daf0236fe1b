#include "kernels/cuda/tile_rows.cuh"

namespace softmax::kernels::cuda {

const TileKernels& BFloat16TileKernels() { return TileKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
