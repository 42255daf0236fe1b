#include "kernels/cuda/columns/plan.h"

#include "kernels/cuda/columns/planner.h"
#include "kernels/cuda/core/of_type.h"
#include "kernels/cuda/strips/ring.h"

namespace softmax::kernels::cuda {

bool ColumnPlanner::PlanFew() {
  if (s_.lengths != nullptr || s_.inner * bytes_ < kMinStripBytes) return false;
  const int sizes = plan_.mixed ? kMixedFewSizes : kFewSizes;
  int few = 0;
  while (few < sizes && s_.cols > kFewColumns[few]) ++few;
  if (few == sizes || bytes_ > FewUnitBytes(kFewColumns[few], bytes_)) return false;
  const int unit_bytes = FewUnitBytes(kFewColumns[few], bytes_);
  const bool wide = Lies(unit_bytes);
  if (unit_bytes == 0 || (kFewColumns[few] > 32 && !wide)) return false;
  const std::int64_t units = s_.inner / (wide ? unit_bytes / bytes_ : 1);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - kBlockThreads;
  if (units > kMost || s_.outer > kMost / units) return false;
  p_.strips = static_cast<std::int32_t>(units);
  plan_.few = few;
  plan_.vectors = wide;
  plan_.threads = bytes_ == 8 ? kBlockThreads : kFewThreads;
  plan_.blocks = DivideUp(s_.outer * units, plan_.threads);
  plan_.possible = true;
  return true;
}

ColumnPlan PlanColumns(DataType type, DataType output_type, const Segment& segment, const Completion& completion,
                       const Device& device) {
  return ColumnPlanner(type, output_type, segment, completion, device).Make();
}

void PlanAhead(DataType type, ColumnPlan* plan) {
  // Neighbouring blocks have about what lies in neighbouring shares if outer blocks are small.
  constexpr std::int64_t kMostOuterBytes = 8 << 20;
  // About what the blocks that a device holds at a time have.
  constexpr std::int64_t kLaterBytes = 7 << 20;
  ColumnParams& p = plan->params;
  const DeviceSegment& s = p.segment;
  const auto element_bytes = static_cast<std::int64_t>(SizeOf(type));
  const std::int64_t outer_bytes = s.cols * s.inner * element_bytes;
  // Others gained nothing, or lost up to 5 %.
  const bool suits = (plan->few >= 0 && element_bytes < 8) || (plan->lanes && element_bytes == 2);
  if (!suits || s.input_stride != s.cols * s.inner || outer_bytes > kMostOuterBytes) return;
  const std::int64_t share = s.outer * outer_bytes / plan->blocks / kVectorBytes * kVectorBytes;
  if (share == 0) return;
  p.ahead_bytes = static_cast<std::int32_t>(share);
  p.later_blocks = static_cast<std::int32_t>(kLaterBytes / share);
}

const void* ColumnKernelOf(DataType type, const ColumnPlan& plan) {
  if (plan.stream) return StreamKernelsFor(type).kernels[plan.cluster_blocks > 1 ? 1 : 0][plan.params.segment.log];
  if (plan.ring) return ColumnRingKernelOf(type, {plan.ring_wide, plan.ring_words}, plan.params.segment.log != 0);
  if (plan.lanes) {
    return ColumnLanesKernelsFor(type).tiles[plan.whole ? 1 : 0].kernels[plan.slots][plan.params.segment.log];
  }
  const ColumnKernels& kernels = ColumnKernelsFor(type);
  const int vectors = plan.vectors ? 1 : 0;
  if (plan.few >= 0) {
    const auto place = 4 * plan.few + 2 * plan.params.segment.log + vectors;
    return plan.mixed ? kernels.mixed_few[place] : kernels.few[place];
  }
  if (plan.mixed) return kernels.mixed[2 * static_cast<int>(plan.mode) + vectors];
  const int unit = plan.vectors ? 2 : plan.pairs ? 1 : 0;
  return kernels.kernels[kColumnUnits * static_cast<int>(plan.mode) + unit];
}

const ColumnLanesKernels& ColumnLanesKernelsFor(DataType type) {
  return OfType(type, Float32ColumnLanesKernels, Float16ColumnLanesKernels, BFloat16ColumnLanesKernels,
                NoKernels<ColumnLanesKernels>);
}

const ColumnStreamKernels& StreamKernelsFor(DataType type) {
  return OfType(type, Float32StreamKernels, Float16StreamKernels, BFloat16StreamKernels,
                NoKernels<ColumnStreamKernels>);
}

const ColumnKernels& ColumnKernelsFor(DataType type) {
  return OfType(type, Float32ColumnKernels, Float16ColumnKernels, BFloat16ColumnKernels, Float64ColumnKernels);
}

}  // namespace softmax::kernels::cuda
