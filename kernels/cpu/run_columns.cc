#include "kernels/cpu/run_columns.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/run_columns.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/cpu/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

void RunColumnsOnTarget(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                        std::int64_t end) {
  WithTypes(input_type, output_type, [&](auto input, auto output) HWY_ATTR {
    using In = decltype(input);
    using Out = decltype(output);
    using T = ComputedIn<In>;
    const AnyFactor<T> factor = FactorFor<T>(segment.scale, segment.operation, sizeof(Out));
    RunColumns<T, In, Out>(segment, factor, begin, end);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softmax::kernels::cpu {

HWY_EXPORT(RunColumnsOnTarget);

void RunColumns(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(RunColumnsOnTarget)(input_type, output_type, segment, begin, end);
}

}  // namespace softmax::kernels::cpu
#endif
