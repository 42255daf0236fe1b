#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/small_rows/tile_rows.cuh"

namespace softmax::kernels::cuda {

const TileKernels& SOFTMAX_OF_ELEMENT(TileKernels)() { return TileKernelsOf<SOFTMAX_ELEMENT>(); }

}  // namespace softmax::kernels::cuda
