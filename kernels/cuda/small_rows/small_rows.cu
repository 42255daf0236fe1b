#include <utility>

#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/small_rows/small.cuh"
#include "kernels/cuda/small_rows/split.cuh"
#include "kernels/cuda/small_rows/tile_rows.cuh"

namespace softmax::kernels::cuda {
namespace {

// Those of rows on the boundaries are compiled for softmax and for log-softmax: with both in one kernel a
// multiprocessor would hold fewer rows.
template <typename In, bool kIsSkew, LogForm kLogForm>
void AddOwn(std::vector<Kernel>* all) {
  const int form = FormOf(kIsSkew, kLogForm == LogForm::kYes, false);
  const int any = kLogForm == LogForm::kAny ? kLog : 0;
  ForEach<1, 2, 4, 8>([&](auto size) {
    if constexpr (size() <= SmallSlots(sizeof(In))) {
      constexpr int kRows = SmallRows(size(), kIsSkew);
      all->push_back(
          {Room::kSmall, size(), form, any, Address(&SmallMatrixKernel<In, size(), kIsSkew, kLogForm, kRows, false>)});
      if constexpr (kRows > 1 && sizeof(In) < 8) {
        all->push_back(
            {Room::kSingle, size(), form, any, Address(&SmallMatrixKernel<In, size(), kIsSkew, kLogForm, 1, false>)});
      }
    }
  });
}

template <typename In, int... kSizes>
void AddTiles(std::vector<Kernel>* all, std::integer_sequence<int, kSizes...>) {
  ForEach<kSizes...>([&](auto size) {
    all->push_back({Room::kTile, size(), kSkew, kLog | kMixed, Address(&TileMatrixKernel<In, size()>)});
  });
}

template <typename In>
std::vector<Kernel> Make() {
  std::vector<Kernel> all;
  AddOwn<In, true, LogForm::kAny>(&all);
  if constexpr (sizeof(In) == 8) {
    AddOwn<In, false, LogForm::kAny>(&all);
  } else {
    AddOwn<In, false, LogForm::kNo>(&all);
    AddOwn<In, false, LogForm::kYes>(&all);
    all.push_back({Room::kSplit, 0, 0, 0, Address(&SplitMatrixKernel<In, false, LogForm::kNo>)});
    all.push_back({Room::kSplit, 0, kLog, 0, Address(&SplitMatrixKernel<In, false, LogForm::kYes>)});
    all.push_back({Room::kSplit, 0, kSkew, kLog, Address(&SplitMatrixKernel<In, true, LogForm::kAny>)});
    ForBoth([&](auto skew) {
      ForEach<1, 2, 4, 8>([&](auto size) {
        if constexpr (size() <= SmallSlots(sizeof(In))) {
          all.push_back({Room::kSmall, size(), FormOf(skew, false, true), kLog,
                         Address(&SmallMatrixKernel<In, size(), skew(), LogForm::kAny, 1, true>)});
        }
      });
    });
    AddTiles<In>(&all, std::make_integer_sequence<int, TileSizes(sizeof(In))>());
  }
  return all;
}

}  // namespace

SOFTMAX_UNIT(SmallRowKernels)

}  // namespace softmax::kernels::cuda
