#include "kernels/cuda/divide.h"
#include "kernels/cuda/share.h"

namespace softmax::kernels::cuda {

bool PlanShare(int bytes, MatrixPlan* plan) {
  MatrixParams& p = plan->params;
  // What lies in the sectors at the ends of rows with gaps is read early by the lanes' kernels alone.
  if (plan->skew || p.fetches_ends || p.lanes < 4 || p.cols % VectorElements(bytes) != 0) return false;
  const int threads = p.lanes / 2;
  const auto vectors = static_cast<int>(DivideUp(p.cols / VectorElements(bytes), threads));
  // Two threads a row touch as many lines as they have rows: only where the arithmetic is most that was no loss.
  const bool is_slow = threads == 2 && (!p.log || vectors == kMostShareVectors);
  if (is_slow || !HasShare(bytes, vectors, p.log)) return false;
  plan->kind = MatrixKind::kShare;
  plan->slots = vectors;
  plan->threads = ShareThreads(vectors);
  plan->blocks = DivideUp(p.rows, plan->threads / threads);
  p.lanes = threads;
  return true;
}

const ShareKernels& ShareKernelsFor(DataType type) {
  static const ShareKernels none{};
  switch (type) {
    case DataType::kFloat16:
      return Float16ShareKernels();
    case DataType::kBFloat16:
      return BFloat16ShareKernels();
    case DataType::kFloat32:
      return Float32ShareKernels();
    case DataType::kFloat64:
      break;
  }
  return none;
}

}  // namespace softmax::kernels::cuda
