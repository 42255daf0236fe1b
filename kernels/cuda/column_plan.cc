#include "kernels/cuda/column_plan.h"

#include "kernels/cuda/column_planner.h"

namespace softmax::kernels::cuda {

ColumnPlan PlanColumns(DataType type, const Segment& segment, const Completion& completion, const Device& device,
                       const ColumnChoice& choice) {
  return ColumnPlanner(type, segment, completion, device, choice).Make();
}

const void* ColumnKernelOf(DataType type, const ColumnPlan& plan) {
  if (plan.stream) return StreamKernelsFor(type).kernels[plan.cluster_blocks > 1 ? 1 : 0][plan.params.segment.log];
  if (plan.passes) return ColumnLanesKernelsFor(type).passes[0];
  if (plan.lanes) {
    return ColumnLanesKernelsFor(type).tiles[plan.whole ? 1 : 0].kernels[plan.slots][plan.params.segment.log];
  }
  const ColumnKernels& kernels = ColumnKernelsFor(type);
  if (plan.few >= 0) return kernels.few[4 * plan.few + 2 * plan.params.segment.log + (plan.vectors ? 1 : 0)];
  const int unit = plan.flat ? 3 : plan.vectors ? 2 : plan.pairs ? 1 : 0;
  return kernels.kernels[kColumnUnits * static_cast<int>(plan.mode) + unit];
}

const ColumnLanesKernels& ColumnLanesKernelsFor(DataType type) {
  if (type == DataType::kFloat16) return Float16ColumnLanesKernels();
  if (type == DataType::kBFloat16) return BFloat16ColumnLanesKernels();
  return Float32ColumnLanesKernels();
}

const ColumnStreamKernels& StreamKernelsFor(DataType type) {
  if (type == DataType::kFloat16) return Float16StreamKernels();
  if (type == DataType::kBFloat16) return BFloat16StreamKernels();
  return Float32StreamKernels();
}

const ColumnKernels& ColumnKernelsFor(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return Float16ColumnKernels();
    case DataType::kBFloat16:
      return BFloat16ColumnKernels();
    case DataType::kFloat64:
      return Float64ColumnKernels();
    case DataType::kFloat32:
      break;
  }
  return Float32ColumnKernels();
}

}  // namespace softmax::kernels::cuda
