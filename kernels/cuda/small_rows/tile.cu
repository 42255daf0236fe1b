#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/small_rows/tile_rows.cuh"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
std::vector<Kernel> Make() {
  std::vector<Kernel> all;
  if constexpr (sizeof(In) == 4) {
    ForEach<0, 1, 2, 3, 4, 5, 6>([&](auto size) {
      static_assert(kFloatTileSizes == 7);
      all.push_back({Room::kTile, size(), kSkew, kLog | kMixed, Address(&TileMatrixKernel<In, size(), false>)});
    });
  } else if constexpr (sizeof(In) == 2) {
    ForEach<0, 1, 2, 3, 4>([&](auto size) {
      static_assert(kHalfTileSizes == 5);
      all.push_back({Room::kTile, size(), kSkew, kLog, Address(&TileMatrixKernel<In, size(), false>)});
      all.push_back({Room::kTile, size(), kSkew | kMixed, kLog, Address(&TileMatrixKernel<In, size(), true>)});
    });
  }
  return all;
}

}  // namespace

SOFTMAX_UNIT(TileKernels)

}  // namespace softmax::kernels::cuda
