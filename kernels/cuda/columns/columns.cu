#include "kernels/cuda/columns/few.cuh"
#include "kernels/cuda/columns/results.cuh"
#include "kernels/cuda/core/instance.h"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
std::vector<Kernel> Make() {
  std::vector<Kernel> all;
  ForBoth([&](auto single) {
    constexpr int kUnit = single() ? 1 : Element<In>::kVector;
    const int form = FormOf(single, false, false);
    ForEach<0, 1>([&](auto mode) {
      constexpr auto kMode = static_cast<ColumnMode>(mode());
      all.push_back({Room::kColumns, mode(), form, kLog | kMixed, Address(&ColumnMatrixKernel<In, kUnit, kMode>)});
    });
    ForEach<0, 1, 2>([&](auto few) {
      constexpr int kColumns = kFewColumns[few()];
      // More columns have wide units alone.
      if constexpr (sizeof(In) < 8 && (kColumns <= 32 || !single())) {
        constexpr int kWide = FewUnitBytes(kColumns, sizeof(In)) / static_cast<int>(sizeof(In));
        all.push_back({Room::kColumnFew, few(), form, kLog | kMixed,
                       Address(&ColumnFewKernel < In, kColumns, single() ? 1 : kWide >)});
      }
    });
  });
  return all;
}

}  // namespace

SOFTMAX_UNIT(ColumnKernels)

}  // namespace softmax::kernels::cuda
