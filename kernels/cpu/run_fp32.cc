#include "kernels/cpu/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/run_fp32.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/cpu/run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

void RunFloat32OnTarget(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end) {
  RunInto<float, float>(output_type, segment, begin, end);
}

void SummarizeFloat32OnTarget(DataType output_type, const SummarySegment& segment, std::int64_t begin,
                              std::int64_t end) {
  SummarizeInto<float, float>(output_type, segment, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softmax::kernels::cpu {

HWY_EXPORT(RunFloat32OnTarget);
HWY_EXPORT(SummarizeFloat32OnTarget);

void RunFloat32(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(RunFloat32OnTarget)(output_type, segment, begin, end);
}

void SummarizeFloat32(DataType output_type, const SummarySegment& segment, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(SummarizeFloat32OnTarget)(output_type, segment, begin, end);
}

}  // namespace softmax::kernels::cpu
#endif
