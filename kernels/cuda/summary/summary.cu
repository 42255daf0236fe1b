#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/summary/kernel.cuh"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
std::vector<Kernel> Make() {
  constexpr int kAny = kSkew | kLog | kMixed;
  return {{Room::kSummary, kSummarySmall, 0, kAny, Address(&SmallSummaryKernel<In>)},
          {Room::kSummary, kSummaryRead, 0, kAny, Address(&SummaryReadKernel<In>)},
          {Room::kSummary, kSummaryRows, 0, kAny, Address(&SummaryRowKernel<In>)}};
}

}  // namespace

SOFTMAX_UNIT(SummaryKernels)

}  // namespace softmax::kernels::cuda
