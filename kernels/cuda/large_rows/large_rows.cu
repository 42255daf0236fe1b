#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/large_rows/bulk.cuh"
#include "kernels/cuda/large_rows/few.cuh"
#include "kernels/cuda/large_rows/large.cuh"
#include "kernels/cuda/large_rows/wide.cuh"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
void AddRegisters(std::vector<Kernel>* all) {
  ForBoth([&](auto log) {
    const int form = FormOf(false, log, false);
    all->push_back({Room::kChunk, 0, form, 0, Address(&ChunkMatrixKernel<In, log(), false>)});
    all->push_back({Room::kCluster, 0, form, 0, Address(&ClusterMatrixKernel<In, log()>)});
    constexpr LogForm kLogForm = log() ? LogForm::kYes : LogForm::kNo;
    all->push_back({Room::kFew, 0, form, 0, Address(&FewMatrixKernel<In, false, kLogForm, false>)});
    all->push_back({Room::kFew, kFewGrid, form, 0, Address(&FewMatrixKernel<In, true, kLogForm, false>)});
  });
  all->push_back({Room::kChunk, 0, kMixed, kLog, Address(&ChunkMatrixKernel<In, true, true>)});
  all->push_back({Room::kFew, 0, kMixed, kLog, Address(&FewMatrixKernel<In, false, LogForm::kAny, true>)});
  all->push_back({Room::kFew, kFewGrid, kMixed, kLog, Address(&FewMatrixKernel<In, true, LogForm::kAny, true>)});
  all->push_back({Room::kLarge, 0, 0, kLog, Address(&LargeMatrixKernel<In, false, false>)});
  all->push_back({Room::kLarge, 0, kSkew, kLog, Address(&LargeMatrixKernel<In, true, false>)});
  all->push_back({Room::kLarge, 0, kMixed, kSkew | kLog, Address(&LargeMatrixKernel<In, true, true>)});
}

template <typename In>
std::vector<Kernel> Make() {
  std::vector<Kernel> all = {{Room::kSlice, 0, 0, kSkew | kLog, Address(&SliceMatrixKernel<In>)},
                             {Room::kWide, 0, 0, kSkew | kLog, Address(&WideMatrixKernel<In>)}};
  if constexpr (sizeof(In) < 8) AddRegisters<In>(&all);
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

SOFTMAX_UNIT(LargeRowKernels)

}  // namespace softmax::kernels::cuda
