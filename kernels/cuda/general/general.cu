#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/general/kernel.cuh"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
std::vector<Kernel> Make() {
  return {{Room::kGeneral, 0, 0, kSkew | kLog | kMixed, Address(&GeneralKernel<In>)}};
}

}  // namespace

SOFTMAX_UNIT(GeneralKernels)

}  // namespace softmax::kernels::cuda
