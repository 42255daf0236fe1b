// The last step of log-softmax, in double whatever type the sum was computed in, once per Highway
// target.
#if defined(SOFTMAX_KERNELS_CPU_LOG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_LOG_INL_H_
#undef SOFTMAX_KERNELS_CPU_LOG_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_LOG_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// Of doubles the halves are subtracted, as a whole distance from the maximum may overflow.
template <typename T>
constexpr double kLogPart = sizeof(T) == 4 ? 1.0 : 0.5;

// What differs from row to row, one row a lane or the same row in all.
struct LogRows {
  VecOf<double> max;  // times kLogPart
  VecOf<double> log_high;
  VecOf<double> log_low;
};

// a * b - product, exactly.
HWY_INLINE VecOf<double> ProductError(VecOf<double> a, VecOf<double> b, VecOf<double> product) {
#if HWY_NATIVE_FMA
  return hn::MulSub(a, b, product);
#else
  const Tag<double> d;
  const auto mask = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<Tag<double>>(), ExpConstants<double>::kHeadMask));
  const auto a_head = hn::And(a, mask);
  const auto b_head = hn::And(b, mask);
  const auto a_tail = hn::Sub(a, a_head);
  const auto b_tail = hn::Sub(b, b_head);
  const auto high = hn::Sub(hn::Mul(a_head, b_head), product);
  const auto middle = hn::Add(hn::Mul(a_head, b_tail), hn::Mul(a_tail, b_head));
  return hn::Add(hn::Add(high, middle), hn::Mul(a_tail, b_tail));
#endif
}

// (x - max) * scale - log(sum), the scale given divided by kLogPart. For T float a double's own
// rounding is far below what shows. For T double every rounding error but the last is carried along.
template <typename T>
HWY_INLINE VecOf<double> LogOf(VecOf<double> x, const LogRows& rows, VecOf<double> scale) {
  const Tag<double> d;
  if constexpr (sizeof(T) == 4) {
    return hn::MulSub(hn::Sub(x, rows.max), scale, rows.log_high);
  } else {
    const auto half = hn::Mul(x, hn::Set(d, kLogPart<T>));
    const auto distance = hn::Sub(half, rows.max);
    const auto virtual_max = hn::Sub(half, distance);
    const auto distance_error = hn::Add(hn::Sub(half, hn::Add(distance, virtual_max)), hn::Sub(virtual_max, rows.max));
    const auto product = hn::Mul(distance, scale);
    const auto product_error = hn::MulAdd(distance_error, scale, ProductError(distance, scale, product));
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

// The type that the elements of log-softmax are loaded and stored as: float, which 16-bit types are
// fast to convert from and to, unless that would round twice what asks for more.
template <typename T, typename Out>
using LogElement = std::conditional_t<sizeof(T) == 4 && sizeof(Out) < 8 && HWY_TARGET != HWY_SCALAR, float, double>;

// Whether floats will do in every step: the answer has 16 bits and the scale is a power of two, so
// that the roundings of the distance, the logarithm and the result are the only ones, 2 ulp at most.
template <typename T, typename Out>
bool LogsInFloats(double scale) {
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << ExpConstants<double>::kFractionBits) - 1;
  return sizeof(T) == 4 && sizeof(Out) == 2 && scale >= 1 && (std::bit_cast<std::uint64_t>(scale) & kFraction) == 0;
}

// The same in floats.
HWY_INLINE VecOf<float> FloatLogOf(VecOf<float> x, VecOf<float> max, VecOf<float> log_sum, VecOf<float> scale) {
  return hn::MulSub(hn::Sub(x, max), scale, log_sum);
}

// LogOf for a vector of floats: `lower` are the rows of its lower half, `upper` those of its upper.
template <typename T>
HWY_INLINE VecOf<double> LogsOf(VecOf<double> x, const LogRows& lower, const LogRows&, VecOf<double> scale) {
  return LogOf<T>(x, lower, scale);
}
#if HWY_TARGET != HWY_SCALAR
template <typename T>
HWY_INLINE VecOf<float> LogsOf(VecOf<float> x, const LogRows& lower, const LogRows& upper, VecOf<double> scale) {
  const Tag<double> d;
  const hn::Half<Tag<float>> half;
  const auto low = LogOf<T>(hn::PromoteTo(d, hn::LowerHalf(half, x)), lower, scale);
  const auto high = LogOf<T>(hn::PromoteTo(d, hn::UpperHalf(half, x)), upper, scale);
  return hn::Combine(Tag<float>(), Narrow(high), Narrow(low));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
