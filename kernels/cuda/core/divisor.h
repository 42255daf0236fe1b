#pragma once

#include <cstdint>

#include "kernels/cuda/core/scale.h"

namespace softmax::kernels::cuda {

// a / b, rounded up, for a >= 0 and b > 0.
constexpr std::int64_t DivideUp(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A positive number that the host knows, by which numbers from 0 to 2^31 - 1 are divided exactly, in a sixth of the
// instructions that any two integers take: times its inverse, rounded up, in units of 2^-(31 + shift). As 2^shift is at
// least the number, that adds less to a quotient than 1 / number, which it is below the next whole one at least.
//
// SmallQuotient() (core/math.cuh) is for small numbers of which the host knows neither.
class ExactDivisor {
 public:
  ExactDivisor() = default;
  explicit ExactDivisor(std::int32_t value) : value_(value) {
    while ((std::int64_t{1} << shift_) < value) ++shift_;
    inverse_ = static_cast<std::uint32_t>((std::uint64_t{1} << (31 + shift_)) / static_cast<std::uint32_t>(value) + 1);
  }

  SOFTMAX_HOST_DEVICE std::int32_t value() const { return value_; }
  SOFTMAX_HOST_DEVICE std::int32_t Quotient(std::int32_t n) const {
    const std::uint32_t twice = static_cast<std::uint32_t>(n) << 1;
    return static_cast<std::int32_t>((std::uint64_t{twice} * inverse_ >> 32) >> shift_);
  }
  SOFTMAX_HOST_DEVICE std::int32_t Remainder(std::int32_t n) const { return n - Quotient(n) * value_; }

 private:
  std::int32_t value_ = 1;
  std::uint32_t inverse_ = (std::uint32_t{1} << 31) + 1;
  std::int32_t shift_ = 0;
};

}  // namespace softmax::kernels::cuda
