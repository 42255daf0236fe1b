#include "kernels/cuda/core/instance.h"
#include "kernels/cuda/large_rows/cluster.cuh"
#include "kernels/cuda/large_rows/few.cuh"

namespace softmax::kernels::cuda {
namespace {

template <typename In>
std::vector<Kernel> Make() {
  std::vector<Kernel> all;
  if constexpr (sizeof(In) < 8) {
    ForBoth([&](auto log) {
      const int form = FormOf(false, log, false);
      all.push_back({Room::kChunk, 0, form, 0, Address(&ChunkMatrixKernel<In, log(), false>)});
      all.push_back({Room::kCluster, 0, form, 0, Address(&ClusterMatrixKernel<In, log()>)});
    });
    all.push_back({Room::kChunk, 0, kMixed, kLog, Address(&ChunkMatrixKernel<In, true, true>)});
    ForBoth([&](auto mixed) {
      const int form = FormOf(false, false, mixed);
      all.push_back({Room::kFew, 0, form, kLog, Address(&FewMatrixKernel<In, false, mixed()>)});
      all.push_back({Room::kFew, 1, form, kLog, Address(&FewMatrixKernel<In, true, mixed()>)});
    });
  }
  return all;
}

}  // namespace

SOFTMAX_UNIT(ChunkKernels)

}  // namespace softmax::kernels::cuda
