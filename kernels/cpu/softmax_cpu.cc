#include "kernels/cpu/softmax_cpu.h"

#include "kernels/cpu/factor.h"
#include "kernels/cpu/run.h"

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

namespace {

bool IsOrdinary(DataType input_type, double scale) {
  return input_type == DataType::kFloat64 ? IsOrdinaryScale<double>(scale) : IsOrdinaryScale<float>(scale);
}

}  // namespace

void Softmax(DataType input_type, DataType output_type, const Segment& segment, std::int64_t row_begin,
             std::int64_t row_end) {
  if (!IsOrdinary(input_type, segment.scale)) {
    return RunAnyScale(input_type, output_type, segment, row_begin, row_end);
  }
  switch (input_type) {
    case DataType::kFloat32:
      return RunFloat32(output_type, segment, row_begin, row_end);
    case DataType::kFloat16:
      return RunFloat16(output_type, segment, row_begin, row_end);
    case DataType::kBFloat16:
      return RunBFloat16(output_type, segment, row_begin, row_end);
    case DataType::kFloat64:
      return RunFloat64(output_type, segment, row_begin, row_end);
  }
}

void Summarize(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t row_begin,
               std::int64_t row_end) {
  if (!IsOrdinary(input_type, segment.rows.scale)) {
    return SummarizeAnyScale(input_type, output_type, segment, row_begin, row_end);
  }
  switch (input_type) {
    case DataType::kFloat32:
      return SummarizeFloat32(output_type, segment, row_begin, row_end);
    case DataType::kFloat16:
      return SummarizeFloat16(output_type, segment, row_begin, row_end);
    case DataType::kBFloat16:
      return SummarizeBFloat16(output_type, segment, row_begin, row_end);
    case DataType::kFloat64:
      return SummarizeFloat64(output_type, segment, row_begin, row_end);
  }
}

std::string TargetName() { return HWY_DYNAMIC_DISPATCH(NameOfTarget)(); }

}  // namespace softmax::kernels::cpu
#endif
