#include "kernels/cpu/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/run_fp64.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/cpu/run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

void RunFloat64OnTarget(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end) {
  RunInto<double, double>(output_type, segment, begin, end);
}

void SummarizeFloat64OnTarget(DataType output_type, const SummarySegment& segment, std::int64_t begin,
                              std::int64_t end) {
  SummarizeInto<double, double>(output_type, segment, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softmax::kernels::cpu {

HWY_EXPORT(RunFloat64OnTarget);
HWY_EXPORT(SummarizeFloat64OnTarget);

void RunFloat64(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(RunFloat64OnTarget)(output_type, segment, begin, end);
}

void SummarizeFloat64(DataType output_type, const SummarySegment& segment, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(SummarizeFloat64OnTarget)(output_type, segment, begin, end);
}

}  // namespace softmax::kernels::cpu
#endif
