#include "kernels/cuda/columns/few.cuh"
#include "kernels/cuda/columns/lanes.cuh"
#include "kernels/cuda/core/instance.h"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
std::vector<Kernel> Make() {
  constexpr int kAny = kLog | kMixed;
  constexpr int kSingle = sizeof(In) == 2 ? kAny : kAny | kSkew;  // others have no wide units
  std::vector<Kernel> all = {{Room::kColumns, 0, kSkew & ~kSingle, kSingle, Address(&ColumnLanesKernel<In, 1, false>)},
                             {Room::kColumns, 1, kSkew & ~kSingle, kSingle, Address(&ColumnLanesKernel<In, 1, true>)}};
  if constexpr (sizeof(In) == 2) {
    all.push_back({Room::kColumns, 0, 0, kAny, Address(&ColumnLanesKernel<In, 2, false>)});
    all.push_back({Room::kColumns, 1, 0, kAny, Address(&ColumnLanesKernel<In, 2, true>)});
  }
  ForBoth([&](auto single) {
    constexpr int kUnit = single() ? 1 : Element<In>::kVector;
    const int form = FormOf(single, false, false);
    ForEach<0, 1, 2>([&](auto few) {
      constexpr int kColumns = kFewColumns[few()];
      // More columns have wide units alone.
      if constexpr (sizeof(In) < 8 && (kColumns <= 32 || !single())) {
        constexpr int kWide = FewUnitBytes(kColumns, sizeof(In)) / static_cast<int>(sizeof(In));
        all.push_back(
            {Room::kColumnFew, few(), form, kAny, Address(&ColumnFewKernel < In, kColumns, single() ? 1 : kWide >)});
      }
    });
  });
  return all;
}

}  // namespace

SOFTMAX_UNIT(ColumnKernels)

}  // namespace softmax::kernels::cuda
