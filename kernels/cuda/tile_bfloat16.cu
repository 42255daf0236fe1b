#include "kernels/cuda/matrix_ring.cuh"
#include "kernels/cuda/tile_rows.cuh"

namespace softmax::kernels::cuda {

const TileKernels& BFloat16TileKernels() { return TileKernelsOf<__nv_bfloat16>(); }
const WideKernels& BFloat16WideKernels() { return WideKernelsOf<__nv_bfloat16>(); }

}  // namespace softmax::kernels::cuda
