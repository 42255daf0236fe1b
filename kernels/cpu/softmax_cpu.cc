#include "kernels/cpu/softmax_cpu.h"

#include "kernels/cpu/run_any_scale.h"
#include "kernels/cpu/run_columns.h"
#include "kernels/cpu/run_rows.h"
#include "kernels/cpu/run_summaries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax_cpu.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

const char* NameOfTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softmax::kernels::cpu {

HWY_EXPORT(NameOfTarget);

void Softmax(DataType input_type, DataType output_type, const Segment& segment, std::int64_t row_begin,
             std::int64_t row_end) {
  if (NeedsAnyScale(input_type, segment)) {
    return RunAnyScale(input_type, output_type, segment, row_begin, row_end);
  }
  if (segment.inner != 1) {
    return RunColumns(input_type, output_type, segment, row_begin, row_end);
  }
  RunRows(input_type, output_type, segment, row_begin, row_end);
}

void Summarize(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t row_begin,
               std::int64_t row_end) {
  if (NeedsAnyScale(input_type, segment.rows)) {
    return SummarizeAnyScale(input_type, output_type, segment, row_begin, row_end);
  }
  RunSummaries(input_type, output_type, segment, row_begin, row_end);
}

std::string TargetName() { return HWY_DYNAMIC_DISPATCH(NameOfTarget)(); }

}  // namespace softmax::kernels::cpu
#endif
