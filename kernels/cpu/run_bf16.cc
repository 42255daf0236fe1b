#include "kernels/cpu/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/run_bf16.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/cpu/run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

void RunBFloat16OnTarget(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end) {
  RunInto<float, BFloat>(output_type, segment, begin, end);
}

void SummarizeBFloat16OnTarget(DataType output_type, const SummarySegment& segment, std::int64_t begin,
                               std::int64_t end) {
  SummarizeInto<float, BFloat>(output_type, segment, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softmax::kernels::cpu {

HWY_EXPORT(RunBFloat16OnTarget);
HWY_EXPORT(SummarizeBFloat16OnTarget);

void RunBFloat16(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(RunBFloat16OnTarget)(output_type, segment, begin, end);
}

void SummarizeBFloat16(DataType output_type, const SummarySegment& segment, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(SummarizeBFloat16OnTarget)(output_type, segment, begin, end);
}

}  // namespace softmax::kernels::cpu
#endif
