#include "kernels/cuda/core/divisor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

namespace softmax::kernels::cuda {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

void ExpectExact(const ExactDivisor& divisor, std::int32_t n) {
  ASSERT_EQ(divisor.Quotient(n), n / divisor.value()) << n << " / " << divisor.value();
  ASSERT_EQ(divisor.Remainder(n), n % divisor.value()) << n << " / " << divisor.value();
}

// Where a quotient changes, and at both ends.
void ExpectExactAround(std::int32_t value) {
  const ExactDivisor divisor(value);
  ASSERT_EQ(divisor.value(), value);
  for (const std::int32_t n : {0, 1, kMost - 1, kMost}) ExpectExact(divisor, n);
  const std::int32_t last = kMost / value;
  for (const std::int32_t quotient : {1, 2, last / 3 + 1, last / 2 + 1, last - 1, last}) {
    if (quotient < 1 || quotient > last) continue;
    ExpectExact(divisor, quotient * value - 1);
    ExpectExact(divisor, quotient * value);
  }
}

TEST(DivisorTest, SmallNumbersDivideExactly) {
  for (std::int32_t value = 1; value <= 1 << 16; ++value) ExpectExactAround(value);
}

TEST(DivisorTest, NumbersAroundPowersOfTwoDivideExactly) {
  for (int bits = 2; bits <= 30; ++bits) {
    for (int off = -1; off <= 1; ++off) ExpectExactAround((1 << bits) + off);
  }
  ExpectExactAround(kMost - 1);
  ExpectExactAround(kMost);
}

TEST(DivisorTest, AnyNumbersDivideExactly) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    const auto value = static_cast<std::int32_t>((random() & kMost) >> random() % 31) | 1;
    ExpectExact(ExactDivisor(value), static_cast<std::int32_t>(random() & kMost));
  }
}

TEST(DivisorTest, OneIsTheDefault) {
  const ExactDivisor divisor;
  for (const std::int32_t n : {0, 1, 2, 12345, kMost}) ExpectExact(divisor, n);
}

}  // namespace
}  // namespace softmax::kernels::cuda
