// Picks the instantiation for a segment, once per Highway target.
#if defined(SOFTMAX_KERNELS_CPU_RUN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_RUN_INL_H_
#undef SOFTMAX_KERNELS_CPU_RUN_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_RUN_INL_H_
#endif

#include "kernels/cpu/columns-inl.h"
#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/short_rows-inl.h"
#include "kernels/cpu/summary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// T is the type computed in.
template <typename T, typename In, typename Out, Grade kGrade>
void RunWith(const Segment& segment, const Factor<T, kGrade>& factor, std::int64_t begin, std::int64_t end) {
  if (segment.inner != 1) {
    return RunColumns<T, In, Out>(segment, factor, begin, end);
  }
#if HWY_TARGET != HWY_SCALAR
  if (segment.cols <= kShort<T>) {
    return RunShortRows<T, In, Out>(segment, factor, begin, end);
  }
#endif
  RunLongRows<T, In, Out>(segment, factor, begin, end);
}

// Calls run(factor) with the factor that answers of this type take.
template <typename T, typename Out, typename F>
HWY_INLINE void WithFactor(const Segment& segment, F run) {
  const Factor<T> factor = MakeFactor<T>(segment.scale);
  // Not for log-softmax, which spends its bound on the roundings of its last step.
  if constexpr (sizeof(T) == 4 && sizeof(Out) == 2) {
    if (segment.operation == Operation::kSoftmax && IsNearlyHigh(factor)) return run(ForSixteen(factor));
  }
  run(factor);
}

// Calls run(element) with an element of the answer's type, which only names it.
template <typename F>
HWY_INLINE void WithOutput(DataType output_type, F run) {
  switch (output_type) {
    case DataType::kFloat32:
      return run(float());
    case DataType::kFloat16:
      return run(Half());
    case DataType::kBFloat16:
      return run(BFloat());
    case DataType::kFloat64:
      return run(double());
  }
}

template <typename T, typename In>
HWY_INLINE void RunInto(DataType output_type, const Segment& segment, std::int64_t begin, std::int64_t end) {
  WithOutput(output_type, [&](auto output) HWY_ATTR {
    using Out = decltype(output);
    WithFactor<T, Out>(segment, [&](const auto& factor) HWY_ATTR { RunWith<T, In, Out>(segment, factor, begin, end); });
  });
}

template <typename T, typename In>
HWY_INLINE void SummarizeInto(DataType output_type, const SummarySegment& segment, std::int64_t begin,
                              std::int64_t end) {
  WithOutput(output_type, [&](auto output) HWY_ATTR {
    using Out = decltype(output);
    WithFactor<T, Out>(segment.rows,
                       [&](const auto& factor) HWY_ATTR { SummarizeWith<T, In, Out>(segment, factor, begin, end); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
