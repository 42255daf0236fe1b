#include "client/softmax_client/request.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace softmax::client {
namespace {

// As the contract has it: the elements have the answer's type, the numbers the input's, where that is float64, and else
// float32.
TEST(ExpectedAnswer, EachPartOfASummaryHasTheSizeOfItsType) {
  const std::vector<std::int32_t> indices = {1, 2, 3, 4};  // of two rows
  SoftmaxOptions options;
  options.summary = {.top_k = 3, .indices = indices, .log_sum_exp = true, .entropy = true};
  const std::array types = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16};
  for (const DataType input : types) {
    for (const DataType output : types) {
      options.output_dtype = output;
      const std::vector<std::byte> data(2 * 5 * SizeOf(input));
      const std::vector<std::int64_t> shape = {2, 5};
      const ExpectedAnswer expected({input, shape, data}, options);
      const std::uint64_t element = SizeOf(output);
      const std::uint64_t number = input == DataType::kFloat64 ? 8 : 4;
      EXPECT_EQ(expected.number_size, number);
      EXPECT_EQ(expected.part_bytes, (std::array<std::uint64_t, Summary::kParts>{6 * element, 6 * 4, 4 * element,
                                                                                 2 * number, 2 * number, 2 * number}));
      EXPECT_FALSE(expected.has_tensor);
    }
  }
}

TEST(ElementsOf, AreBoundedSoThatTheirBytesAreANumber) {
  constexpr std::int64_t kMost = INT64_MAX / 8;
  EXPECT_EQ(ElementsOf(std::array{kMost, std::int64_t{1}}), std::uint64_t{kMost});
  EXPECT_FALSE(ElementsOf(std::array{kMost + 1, std::int64_t{1}}));
}

TEST(ExpectedAnswer, HasTheWholeTensorWhereNoSummaryOrTheWholeIsAskedFor) {
  const std::vector<std::byte> data(40);
  const std::vector<std::int64_t> shape = {2, 5};
  const TensorView input{DataType::kFloat32, shape, data};
  SoftmaxOptions options;
  EXPECT_TRUE(ExpectedAnswer(input, options).has_tensor);
  options.summary.entropy = true;
  EXPECT_FALSE(ExpectedAnswer(input, options).has_tensor);
  options.summary.full = true;
  EXPECT_TRUE(ExpectedAnswer(input, options).has_tensor);
  EXPECT_TRUE(ExpectedAnswer(input, options).has_summary);
}

}  // namespace
}  // namespace softmax::client
