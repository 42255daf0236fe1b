#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/large_rows/large.cuh"
#include "kernels/cuda/large_rows/wide.cuh"

namespace softmax::kernels::cuda {

namespace {

template <typename In>
std::vector<Kernel> Make() {
  std::vector<Kernel> all = {{Room::kSlice, 0, 0, kSkew | kLog, Address(&SliceMatrixKernel<In>)},
                             {Room::kWide, 0, 0, kSkew | kLog, Address(&WideMatrixKernel<In>)}};
  if constexpr (sizeof(In) < 8) {
    all.push_back({Room::kLarge, 0, 0, kLog, Address(&LargeMatrixKernel<In, false, false>)});
    all.push_back({Room::kLarge, 0, kSkew, kLog, Address(&LargeMatrixKernel<In, true, false>)});
    all.push_back({Room::kLarge, 0, kMixed, kSkew | kLog, Address(&LargeMatrixKernel<In, true, true>)});
  }
  return all;
}

}  // namespace

SOFTMAX_UNIT(LargeRowKernels)

}  // namespace softmax::kernels::cuda
