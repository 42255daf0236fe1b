// The last step of log-softmax, in double whatever type the sum was computed in, once per Highway
// target.
#if defined(SOFTMAX_KERNELS_CPU_LOG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_LOG_INL_H_
#undef SOFTMAX_KERNELS_CPU_LOG_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_LOG_INL_H_
#endif

#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// What differs from row to row, one row a lane or the same row in all. Half the distance from the
// maximum is taken because the whole one may overflow.
struct LogRows {
  VecOf<double> half_max;
  VecOf<double> log_high;
  VecOf<double> log_low;
};

// a * b - product, exactly.
HWY_INLINE VecOf<double> ProductError(VecOf<double> a, VecOf<double> b, VecOf<double> product) {
#if HWY_NATIVE_FMA
  return hn::MulSub(a, b, product);
#else
  const Tag<double> d;
  const auto mask = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<Tag<double> >(), ExpConstants<double>::kHeadMask));
  const auto a_head = hn::And(a, mask);
  const auto b_head = hn::And(b, mask);
  const auto a_tail = hn::Sub(a, a_head);
  const auto b_tail = hn::Sub(b, b_head);
  const auto high = hn::Sub(hn::Mul(a_head, b_head), product);
  const auto middle = hn::Add(hn::Mul(a_head, b_tail), hn::Mul(a_tail, b_head));
  return hn::Add(hn::Add(high, middle), hn::Mul(a_tail, b_tail));
#endif
}

// (x - max) * scale - log(sum). For T float a double's own rounding is far below what shows. For T
// double every rounding error but the last is carried along.
template <typename T>
HWY_INLINE VecOf<double> LogOf(VecOf<double> x, const LogRows& rows, VecOf<double> twice_scale) {
  const Tag<double> d;
  const auto half = hn::Mul(x, hn::Set(d, 0.5));
  const auto distance = hn::Sub(half, rows.half_max);
  if constexpr (sizeof(T) == 4) {
    return hn::MulSub(distance, twice_scale, rows.log_high);
  } else {
    const auto virtual_max = hn::Sub(half, distance);
    const auto distance_error =
        hn::Add(hn::Sub(half, hn::Add(distance, virtual_max)), hn::Sub(virtual_max, rows.half_max));
    const auto product = hn::Mul(distance, twice_scale);
    const auto product_error = hn::MulAdd(distance_error, twice_scale, ProductError(distance, twice_scale, product));
    const auto result = hn::Sub(product, rows.log_high);
    const auto virtual_log = hn::Sub(product, result);
    const auto result_error =
        hn::Add(hn::Sub(product, hn::Add(result, virtual_log)), hn::Sub(virtual_log, rows.log_high));
    const auto error = hn::Add(result_error, hn::Sub(product_error, rows.log_low));
    // Infinite results have no error to correct, and for huge ones it may have overflowed.
    const auto is_moderate = hn::Gt(result, hn::Set(d, -0x1p900));
    return hn::IfThenElse(is_moderate, hn::Add(result, error), result);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
