#pragma once

#include <cmath>
#include <cstddef>

#include "kernels/operations.h"
#include "kernels/types.h"

// scale * log2(e), the number that turns a distance from the maximum into an exponent of two, in
// more precision than T holds: the product then adds no error of its own.
namespace softmax::kernels::cpu {

// What an exponential is good for: any answer, or softmax of 16 bits only, which leaves room for a shorter polynomial
// and for what rounding the factor costs.
enum class Grade { kFull, kSixteen };

// The grade is part of the type, so that whoever is handed a factor computes the exponentials that go with it.
template <typename T, Grade kGrade = Grade::kFull>
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

// Whether the factor's high part alone will do for 16-bit answers: without its low part an exponential is at most half
// a unit in the last place off for every unit of distance, and the distance's own rounding is at most one.
template <typename T>
bool IsNearlyHigh(const Factor<T>& factor) {
  return std::abs(factor.low) <= factor.high * static_cast<T>(0x1p-25);
}

template <typename T>
Factor<T, Grade::kSixteen> ForSixteen(const Factor<T>& factor) {
  return {factor.high, factor.low, factor.head, factor.tail};
}

// A factor whose grade is known when the program runs.
template <typename T>
struct AnyFactor {
  Factor<T> full;
  bool is_for_sixteen;
};

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

// The factor for answers of a segment.
template <typename T>
AnyFactor<T> FactorFor(double scale, Operation operation, std::size_t answer_size) {
  const Factor<T> full = MakeFactor<T>(scale);
  // Not for log-softmax, which spends its bound on the roundings of its last step.
  const bool has_room = sizeof(T) == 4 && answer_size == 2 && !TraitsOf(operation).is_log;
  return {full, has_room && IsNearlyHigh(full)};
}

}  // namespace softmax::kernels::cpu
