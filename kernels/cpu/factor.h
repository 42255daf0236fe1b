#pragma once

#include <cmath>

// scale * log2(e), the number that turns a distance from the maximum into an exponent of two, in
// more precision than T holds: the product then adds no error of its own.
namespace softmax::kernels::cpu {

template <typename T>
struct Factor {
  T high;  // high + low: for targets with fused multiply-add
  T low;
  T head;  // head + tail: head has so few bits that its product with half of a T is exact
  T tail;
};

// Scales outside give a Factor that over- or underflows; SoftmaxAnyScale takes those.
template <typename T>
constexpr bool IsOrdinaryScale(double scale) {
  return sizeof(T) == 4 ? scale > 0x1p-100 && scale < 0x1p60 : scale > 0x1p-900 && scale < 0x1p900;
}

template <typename T>
Factor<T> MakeFactor(double scale) {
  constexpr long double kLog2E = 1.442695040888963407359924681001892137L;
  const long double factor = static_cast<long double>(scale) * kLog2E;
  int exponent;
  const long double fraction = std::frexp(factor, &exponent);
  constexpr int kHeadBits = sizeof(T) == 4 ? 12 : 26;
  Factor<T> result;
  result.high = static_cast<T>(factor);
  result.low = static_cast<T>(factor - result.high);
  result.head = static_cast<T>(std::ldexp(std::nearbyint(std::ldexp(fraction, kHeadBits)), exponent - kHeadBits));
  result.tail = static_cast<T>(factor - result.head);
  return result;
}

}  // namespace softmax::kernels::cpu
