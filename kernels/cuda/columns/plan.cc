#include "kernels/cuda/columns/plan.h"

#include "kernels/cuda/columns/planner.h"

namespace softmax::kernels::cuda {

bool ColumnPlanner::PlanFew() {
  if (bytes_ == 8 || s_.lengths != nullptr || s_.inner * bytes_ < kMinStripBytes) return false;
  int few = 0;
  while (few < kFewSizes && s_.cols > kFewColumns[few]) ++few;
  if (few == kFewSizes || bytes_ > FewUnitBytes(kFewColumns[few], bytes_)) return false;
  const int unit_bytes = FewUnitBytes(kFewColumns[few], bytes_);
  const bool wide = Lies(unit_bytes);
  if (kFewColumns[few] > 32 && !wide) return false;
  const std::int64_t units = s_.inner / (wide ? unit_bytes / bytes_ : 1);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - kBlockThreads;
  if (units > kMost || s_.outer > kMost / units) return false;
  p_.strips = static_cast<std::int32_t>(units);
  plan_.few = few;
  plan_.vectors = wide;
  plan_.threads = kFewThreads;
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
  ColumnParams& p = plan->params;
  const DeviceSegment& s = p.segment;
  const auto element_bytes = static_cast<std::int64_t>(SizeOf(type));
  const std::int64_t outer_bytes = s.cols * s.inner * element_bytes;
  // Others gained nothing, or lost up to 5 %.
  const bool suits = plan->few >= 0;
  if (!suits || s.input_stride != s.cols * s.inner || outer_bytes > kMostOuterBytes) return;
  const std::int64_t share = s.outer * outer_bytes / plan->blocks / kVectorBytes * kVectorBytes;
  if (share == 0) return;
  p.ahead_bytes = static_cast<std::int32_t>(share);
}

}  // namespace softmax::kernels::cuda
