#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/core/of_type.h"
#include "kernels/cuda/rows/mixed.h"
#include "kernels/cuda/small_rows/tile.h"

namespace softmax::kernels::cuda {
namespace {

int SizeOfSlots(int slots) {
  int size = 0;
  while (kMixedSlots[size] < slots) ++size;
  return size;
}

}  // namespace

const void* MixedKernelOf(DataType type, const MatrixPlan& plan) {
  const MixedKernels& kernels = MixedKernelsFor(type);
  const int log = plan.params.log ? 1 : 0;
  const bool is_cluster = plan.params.cluster_blocks > 1;
  const int skew = plan.skew ? 1 : 0;
  switch (plan.kind) {
    case MatrixKind::kSmall:
      return kernels.small[SizeOfSlots(plan.slots)][skew][log];
    case MatrixKind::kChunk:
      return kernels.chunk[log];
    case MatrixKind::kFew:
      return kernels.few[is_cluster ? 0 : 1][log];
    case MatrixKind::kLarge:
      return kernels.large[log];
    case MatrixKind::kTiny:
      return TinyKernelOf(type, plan);
    case MatrixKind::kBulk:
      return is_cluster ? kernels.bulk_cluster[log] : kernels.bulk[log];
    default:
      return nullptr;
  }
}

const MixedKernels& MixedKernelsFor(DataType type) {
  return OfType(type, Float32MixedKernels, Float16MixedKernels, BFloat16MixedKernels, Float64MixedKernels);
}

}  // namespace softmax::kernels::cuda
