#include "kernels/cuda/batch/rows.cuh"
#include "kernels/cuda/core/instance.h"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
std::vector<Kernel> Make() {
  return {{Room::kBatch, 0, 0, kLog, Address(&BatchRowsKernel<In, false, false>)},
          {Room::kBatch, 0, kSkew, kLog, Address(&BatchRowsKernel<In, true, false>)},
          {Room::kBatch, 0, kMixed, kSkew | kLog, Address(&BatchRowsKernel<In, true, true>)}};
}

}  // namespace

SOFTMAX_UNIT(BatchKernels)

}  // namespace softmax::kernels::cuda
