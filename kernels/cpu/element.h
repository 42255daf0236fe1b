#pragma once

#include <cstdint>
#include <limits>

#include "kernels/operations.h"
#include "kernels/types.h"

// The element types of tensors as C++ types, and the constants that edge rows are filled with.
namespace softmax::kernels::cpu {

struct Half {
  std::uint16_t bits;
};

struct BFloat {
  std::uint16_t bits;
};

template <typename Element>
struct Constants {
  static constexpr Element kZero = 0;
  static constexpr Element kNegativeInfinity = -std::numeric_limits<Element>::infinity();
  static constexpr Element kNan = std::numeric_limits<Element>::quiet_NaN();
};

template <>
struct Constants<Half> {
  static constexpr Half kZero{0};
  static constexpr Half kNegativeInfinity{0xfc00};
  static constexpr Half kNan{0x7e00};
};

template <>
struct Constants<BFloat> {
  static constexpr BFloat kZero{0};
  static constexpr BFloat kNegativeInfinity{0xff80};
  static constexpr BFloat kNan{0x7fc0};
};

// What stands for elements that do not matter.
template <typename Element>
Element MaskedValue(Operation operation) {
  return TraitsOf(operation).is_log ? Constants<Element>::kNegativeInfinity : Constants<Element>::kZero;
}

}  // namespace softmax::kernels::cpu
