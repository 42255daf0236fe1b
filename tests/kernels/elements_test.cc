#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/reference.h"
#include "tests/kernels/cpu_targets.h"
#include "tests/support/kernel_cases.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/elements_test.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/cpu/elements-inl.h"

// The kernels' conversions against the reference's, on every instruction set.
HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T, typename Element>
void LoadAllTyped(const Element* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; i += kLanes<T>) {
    const std::int64_t some = std::min<std::int64_t>(kLanes<T>, count - i);
    StorePartialVec<T>(LoadPartialVec<T>(from + i, some), to + i, some);
  }
}

template <typename T, typename Element>
void StoreAllTyped(const T* from, std::int64_t count, Element* to) {
  for (std::int64_t i = 0; i < count; i += kLanes<T>) {
    const std::int64_t some = std::min<std::int64_t>(kLanes<T>, count - i);
    StorePartialVec<T>(LoadPartialVec<T>(from + i, some), to + i, some);
  }
}

void LoadHalves(const Half* from, std::int64_t count, float* to) { LoadAllTyped(from, count, to); }
void LoadBFloats(const BFloat* from, std::int64_t count, float* to) { LoadAllTyped(from, count, to); }
void FloatsToHalves(const float* from, std::int64_t count, Half* to) { StoreAllTyped(from, count, to); }
void FloatsToBFloats(const float* from, std::int64_t count, BFloat* to) { StoreAllTyped(from, count, to); }
void DoublesToHalves(const double* from, std::int64_t count, Half* to) { StoreAllTyped(from, count, to); }
void DoublesToBFloats(const double* from, std::int64_t count, BFloat* to) { StoreAllTyped(from, count, to); }

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softmax::kernels::cpu {

HWY_EXPORT(LoadHalves);
HWY_EXPORT(LoadBFloats);
HWY_EXPORT(FloatsToHalves);
HWY_EXPORT(FloatsToBFloats);
HWY_EXPORT(DoublesToHalves);
HWY_EXPORT(DoublesToBFloats);

namespace {

// Every 16-bit number, half-way points between neighbours and what lies just beside those, the
// borders of the ranges, and random bits.
template <typename T>
std::vector<T> HardNumbers(DataType type) {
  std::vector<T> numbers;
  double previous = 0;
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double value = LoadElement(type, &bits, 0);
    const T middle = static_cast<T>((value + previous) / 2);
    for (const T x : {static_cast<T>(value), middle, std::nextafter(middle, T{0}),
                      std::nextafter(middle, std::numeric_limits<T>::infinity())}) {
      numbers.push_back(x);
    }
    previous = value;
  }
  testing::Random random(3);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t bits = random.Next();
    T x;
    std::memcpy(&x, &bits, sizeof(x));
    numbers.push_back(x);
  }
  for (const double x : {65519.999, 65520.0, 65536.0, 1e5, 3.3961775e38, 3.4e38, 1e-46, 1e-300}) {
    numbers.push_back(static_cast<T>(x));
    numbers.push_back(static_cast<T>(-x));
  }
  return numbers;
}

template <typename T, typename Element>
void ExpectRounded(DataType type, void (*store)(const T*, std::int64_t, Element*)) {
  const std::vector<T> numbers = HardNumbers<T>(type);
  std::vector<Element> got(numbers.size());
  store(numbers.data(), static_cast<std::int64_t>(numbers.size()), got.data());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::uint16_t expected = 0;
    StoreElement(type, &expected, 0, static_cast<double>(numbers[i]));
    if (std::isnan(numbers[i])) {
      ASSERT_TRUE(std::isnan(LoadElement(type, &got[i].bits, 0))) << i;
    } else {
      ASSERT_EQ(expected, got[i].bits) << testing::NameOf(type) << " of " << std::hexfloat << numbers[i];
    }
  }
}

template <typename Element>
void ExpectLoaded(DataType type, void (*load)(const Element*, std::int64_t, float*)) {
  std::vector<Element> numbers(65536);
  std::vector<float> got(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i].bits = static_cast<std::uint16_t>(i);
  }
  load(numbers.data(), static_cast<std::int64_t>(numbers.size()), got.data());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto expected = static_cast<float>(LoadElement(type, &numbers[i].bits, 0));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got[i])) << i;
    } else {
      ASSERT_EQ(0, std::memcmp(&expected, &got[i], sizeof(float))) << i;
    }
  }
}

class ElementsTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  ElementsTest() : target_(GetParam()) {}
  testing::OnlyTarget target_;
};

TEST_P(ElementsTest, LoadsEverySixteenBitNumberExactly) {
  ExpectLoaded(DataType::kFloat16, HWY_DYNAMIC_DISPATCH(LoadHalves));
  ExpectLoaded(DataType::kBFloat16, HWY_DYNAMIC_DISPATCH(LoadBFloats));
}

TEST_P(ElementsTest, RoundsFloatsOnceToNearestEven) {
  ExpectRounded(DataType::kFloat16, HWY_DYNAMIC_DISPATCH(FloatsToHalves));
  ExpectRounded(DataType::kBFloat16, HWY_DYNAMIC_DISPATCH(FloatsToBFloats));
}

TEST_P(ElementsTest, RoundsDoublesOnceToNearestEven) {
  ExpectRounded(DataType::kFloat16, HWY_DYNAMIC_DISPATCH(DoublesToHalves));
  ExpectRounded(DataType::kBFloat16, HWY_DYNAMIC_DISPATCH(DoublesToBFloats));
}

INSTANTIATE_TEST_SUITE_P(Targets, ElementsTest, ::testing::ValuesIn(testing::CpuTargets()),
                         [](const auto& info) { return testing::NameOfCpuTarget(info.param); });

}  // namespace
}  // namespace softmax::kernels::cpu
#endif
