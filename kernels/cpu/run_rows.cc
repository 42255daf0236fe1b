#include "kernels/cpu/run_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/run_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/short_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

void RunRowsOnTarget(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                     std::int64_t end) {
  WithTypes(input_type, output_type, [&](auto input, auto output) HWY_ATTR {
    using In = decltype(input);
    using Out = decltype(output);
    using T = ComputedIn<In>;
    const AnyFactor<T> factor = FactorFor<T>(segment.scale, segment.operation, sizeof(Out));
#if HWY_TARGET != HWY_SCALAR
    if (segment.cols <= kShort<T>) {
      return RunShortRows<T, In, Out>(segment, factor, begin, end);
    }
#endif
    RunLongRows<T, In, Out>(segment, factor, begin, end);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softmax::kernels::cpu {

HWY_EXPORT(RunRowsOnTarget);

void RunRows(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(RunRowsOnTarget)(input_type, output_type, segment, begin, end);
}

}  // namespace softmax::kernels::cpu
#endif
