#include "kernels/cuda/core/divide.h"
#include "kernels/cuda/core/of_type.h"
#include "kernels/cuda/small_rows/share.h"
#include "kernels/cuda/small_rows/tile.h"

namespace softmax::kernels::cuda {
namespace {

// Whether two threads a row are slower than four lanes. They touch as many lines as they have rows: only where the
// arithmetic is most that was no loss. With slower memory it is one but for the fewest vectors of small tensors.
bool IsPairSlow(const MatrixParams& p, int bytes, int vectors, const Device& device) {
  if (!p.log || vectors == kMostShareVectors) return true;
  return !device.fast_memory && (vectors > kLeastShareVectors || FillsShared(p, bytes, 1, device));
}

}  // namespace

bool PlanShare(int bytes, const Device& device, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  // What lies in the sectors at the ends of rows with gaps is read early by the lanes' kernels alone.
  if (plan->skew || p.fetches_ends || p.lanes < 4 || p.cols % VectorElements(bytes) != 0) return false;
  const int threads = p.lanes / 2;
  const auto vectors = static_cast<int>(DivideUp(p.cols / VectorElements(bytes), threads));
  if (!HasShare(bytes, vectors, p.log) || (threads == 2 && IsPairSlow(p, bytes, vectors, device))) return false;
  plan->kind = MatrixKind::kShare;
  plan->slots = vectors;
  plan->threads = ShareThreads(vectors);
  plan->blocks = DivideUp(p.rows, plan->threads / threads);
  p.lanes = threads;
  return true;
}

const ShareKernels& ShareKernelsFor(DataType type) {
  return OfType(type, Float32ShareKernels, Float16ShareKernels, BFloat16ShareKernels, NoKernels<ShareKernels>);
}

}  // namespace softmax::kernels::cuda
