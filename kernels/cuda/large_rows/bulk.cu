#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/large_rows/bulk.cuh"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
std::vector<Kernel> Make() {
  std::vector<Kernel> all;
  ForBoth([&](auto mixed) {
    const int form = FormOf(false, false, mixed);
    all.push_back({Room::kBulk, 0, form, kSkew | kLog, Address(&BulkMatrixKernel<In, mixed()>)});
    if constexpr (sizeof(In) == 4 || (mixed() && sizeof(In) == 2)) {
      all.push_back({Room::kParts, 0, form, kSkew | kLog, Address(&PartsMatrixKernel<In, true, mixed()>)});
    }
  });
  if constexpr (sizeof(In) == 2) {
    ForBoth([&](auto skew) {
      const int form = FormOf(skew, false, false);
      all.push_back({Room::kParts, 0, form, kLog, Address(&PartsMatrixKernel<In, skew(), false>)});
    });
  }
  return all;
}

}  // namespace

SOFTMAX_UNIT(BulkKernels)

}  // namespace softmax::kernels::cuda
