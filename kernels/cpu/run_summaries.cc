#include "kernels/cpu/run_summaries.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/run_summaries.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/cpu/summary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

void RunSummariesOnTarget(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t begin,
                          std::int64_t end) {
  WithType(input_type, [&](auto input) HWY_ATTR {
    using In = decltype(input);
    using T = ComputedIn<In>;
    const AnyFactor<T> factor = FactorFor<T>(segment.rows.scale, segment.rows.operation, SizeOf(output_type));
    ValueWriter<T> writer;
    WithType(output_type, [&](auto output) HWY_ATTR {
      writer = {WriteValues<T, decltype(output)>, FillValues<decltype(output)>};
    });
    Summarizer<T, In> summarizer(segment, factor, writer);
    for (std::int64_t row = begin; row < end; ++row) summarizer.Run(row);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softmax::kernels::cpu {

HWY_EXPORT(RunSummariesOnTarget);

void RunSummaries(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t begin,
                  std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(RunSummariesOnTarget)(input_type, output_type, segment, begin, end);
}

}  // namespace softmax::kernels::cpu
#endif
