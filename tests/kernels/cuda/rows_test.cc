#include <array>
#include <cmath>
#include <random>

#include "tests/kernels/cuda/row_case.h"
#include "tests/support/two_values.h"

// Right answers: every width, type and kind of value, judged against the reference in higher precision.
namespace softmax::kernels::testing {
namespace {

using RowsTest = GpuTest;

constexpr std::int64_t kRowWidths[] = {1,  2,   5,   7,   8,   12,   24,   31,   32,   33,   40,    47,
                                       63, 127, 128, 129, 781, 1023, 1024, 1025, 4099, 8193, 50257, 131073};

std::int64_t RowsFor(std::int64_t cols) { return cols <= 781 ? 37 : cols <= 4099 ? 5 : 2; }

TEST_F(RowsTest, EveryWidthTypeAndValueIsWithinTheBounds) {
  for (const auto& [type, cols, values, operation] : Product(kAllTypes, kRowWidths, kAllValues, kBothOperations)) {
    if (cols > 10000 && values != Values::kNormal && values != Values::kPartialInfinity) continue;
    ExpectGood(CaseOf(type, operation, cols, RowsFor(cols)), values);
  }
}

TEST_F(RowsTest, The1823By781MatrixIsWithinTheBounds) {
  RowCase c;
  c.outer = 1823;
  c.cols = 781;
  ExpectGood(c, Values::kNormal);
}

TEST_F(RowsTest, EveryPairOfTypesConverts) {
  for (const auto& [input, output, cols, operation] :
       Product(kAllTypes, kAllTypes, Ints{7, 300, 1024, 3001, 20000}, kBothOperations)) {
    RowCase c = CaseOf(input, operation, cols, 9);
    c.output_type = output;
    ExpectGood(c, Values::kNormal);
    c.inner = 3;
    c.outer = 2;
    if (cols <= 3001) ExpectGood(c, Values::kPartialInfinity);
  }
}

TEST_F(RowsTest, AnyScaleIsWithinTheBounds) {
  struct Shape {
    std::int64_t cols;
    std::int64_t inner;
  };
  constexpr Shape kShapes[] = {{2050, 1}, {2050, 3}, {300, 40}, {20, 70}, {5, 70}};
  for (const auto& [type, scale, values, operation, shape] :
       Product(kAllTypes, Doubles{1e-300, 1e-39, 0.125, 0.3, 0.7071067811865476, 3.7, 1e20, 1e300},
               std::array{Values::kNormal, Values::kNormal50, Values::kLargest}, kBothOperations, kShapes)) {
    RowCase c = CaseOf(type, operation, shape.cols, 3, shape.inner);
    c.scale = scale;
    ExpectGood(c, values);
  }
}

TEST_F(RowsTest, EveryStartOfEveryTypeIsWithinTheBounds) {
  for (const DataType type : kAllTypes) {
    const std::int64_t vector = 16 / static_cast<std::int64_t>(SizeOf(type));
    for (std::int64_t in = 0; in < vector; ++in) {
      for (std::int64_t out = 0; out < vector; ++out) {
        for (const std::int64_t cols : {3, 64, 1000, 5000}) {
          RowCase c = CaseOf(type, Operation::kSoftmax, cols, 5);
          c.input_offset = in;
          c.output_offset = out;
          c.padding = out % 3;
          ExpectGood(c, Values::kNormal);
        }
      }
    }
  }
}

TEST_F(RowsTest, InPlaceIsWithinTheBounds) {
  for (const auto& [type, inner, cols] : Product(kAllTypes, Ints{1, 3, 40}, Ints{1, 33, 1000, 9001, 70001})) {
    RowCase c = CaseOf(type, Operation::kSoftmax, cols, 3, inner);
    c.input_offset = 1;
    c.in_place = true;
    if (cols * inner < 400000) ExpectGood(c, Values::kNormal);
  }
}

TEST_F(RowsTest, LengthsMaskTheRest) {
  for (const auto& [type, inner, cols, operation] :
       Product(kAllTypes, Ints{1, 5, 16}, Ints{1, 40, 1024, 3000, 40000}, kBothOperations)) {
    if (cols * inner > 200000) continue;
    RowCase c = CaseOf(type, operation, cols, 6, inner);
    for (std::int64_t r = 0; r < c.outer * inner; ++r) {
      c.lengths.push_back(static_cast<std::uint32_t>(r * 7919 % (cols + 1)));
    }
    c.lengths[1] = 0;
    c.lengths[2] = static_cast<std::uint32_t>(cols);
    ExpectGood(c, Values::kNormal);
    ExpectGood(c, Values::kNan);
  }
}

// The last row of a tensor ends, less than a vector after the last column that counts, where nothing may be read in
// whole vectors; and what counts ends where another slot, chunk or warp would begin.
TEST_F(RowsTest, LengthsAtTheEndOfAPartMaskTheRest) {
  for (const auto& [type, length, operation] :
       Product(kAllTypes, Ints{128, 256, 512, 768, 1024, 2048, 4096, 16384, 65536, 131072}, kBothOperations)) {
    RowCase c = CaseOf(type, operation, length + 1, 2);
    c.lengths = {static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(length)};
    c.input_offset = c.output_offset = 1;
    ExpectGood(c, Values::kNormal);
  }
}

TEST_F(RowsTest, OtherAxesAreWithinTheBounds) {
  for (const auto& [type, inner, cols] : Product(kAllTypes, Ints{2, 3, 8, 9, 33, 64}, Ints{1, 31, 781, 1025, 2500})) {
    RowCase c = CaseOf(type, Operation::kSoftmax, cols, 2, inner);
    c.padding = 1;
    ExpectGood(c, Values::kNormal);
    c.operation = Operation::kLogSoftmax;
    ExpectGood(c, Values::kPartialInfinity);
  }
}

// Every way in which columns of an inner axis may miss the boundaries of vectors, in whole strips and partly filled
// ones.
TEST_F(RowsTest, OtherAxesAreWithinTheBoundsAtAnyStart) {
  for (const DataType type : kAllTypes) {
    const std::int64_t vector = 16 / static_cast<std::int64_t>(SizeOf(type));
    for (const auto& [inner, cols] : Product(Ints{24, 50, 72, 77}, Ints{5, 20, 300, 1300})) {
      for (std::int64_t start = 0; start < 3; ++start) {
        RowCase c = CaseOf(type, Operation::kSoftmax, cols, 2, inner);
        c.input_offset = start % vector;
        c.output_offset = start * 3 % vector;
        c.padding = start == 2 ? vector : 0;
        ExpectGood(c, Values::kNormal);
        c.operation = Operation::kLogSoftmax;
        ExpectGood(c, Values::kNormal50);
      }
    }
  }
}

TEST_F(RowsTest, OtherAxesTakeEveryValue) {
  for (const auto& [type, inner, cols, values, operation] :
       Product(kAllTypes, Ints{3, 16}, Ints{7, 30, 257, 781, 2500}, kAllValues, kBothOperations)) {
    ExpectGood(CaseOf(type, operation, cols, 2, inner), values);
  }
}

TEST_F(RowsTest, ManyRowsOfAnotherAxisTakeEveryValue) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    bool is_narrow = type == DataType::kFloat16;
    for (const Values values : kAllValues) {
      RowCase c = CaseOf(type, values == Values::kNormal ? Operation::kLogSoftmax : Operation::kSoftmax, 600, 20, 200);
      ExpectGood(c, values);
      c.outer = 60;
      c.cols = 520;
      c.inner = 136;
      if (is_narrow) ExpectGood(c, values);
      is_narrow = !is_narrow;
    }
  }
}

// Strips that miss the sectors of memory.
void ExpectManyStrips(DataType type, Operation operation, Values values) {
  const bool is_float = type == DataType::kFloat32;
  RowCase c = CaseOf(type, operation, 520, is_float ? 40 : 70, operation == Operation::kSoftmax ? 281 : 282);
  ExpectGood(c, values);
  if (values != Values::kPartialInfinity && values != Values::kLargest) return;
  c.outer = is_float ? 8 : 14;
  c.cols = 2040;
  c.inner = 701;
  ExpectGood(c, values);
}

class RowsOfType : public GpuTest, public ::testing::WithParamInterface<DataType> {};
INSTANTIATE_TEST_SUITE_P(Types, RowsOfType, ::testing::ValuesIn(kTypesUpTo32Bits), NameOfType);

TEST_P(RowsOfType, ManyStripsTakeEveryValue) {
  for (const Operation operation : kBothOperations) {
    for (const Values values : kAllValues) ExpectManyStrips(GetParam(), operation, values);
  }
}

TEST_F(RowsTest, ManyStripsInPlaceAreWithinTheBounds) {
  for (const DataType type : kTypesUpTo32Bits) {
    RowCase c = CaseOf(type, Operation::kSoftmax, 520, 40, 281);
    c.in_place = true;
    ExpectGood(c, Values::kNormal);
  }
}

TEST_F(RowsTest, ALongOtherAxisIsWithinTheBounds) {
  RowCase c;
  c.outer = 3;
  c.cols = 70000;
  c.inner = 64;
  ExpectGood(c, Values::kNormal);
}

// Columns that no cluster can hold.
TEST_F(RowsTest, ALongOtherAxisTakesEveryValue) {
  for (const DataType type : kTypesUpTo32Bits) {
    RowCase c = CaseOf(type, Operation::kSoftmax, 60001, 1, 32 / static_cast<std::int64_t>(SizeOf(type)));
    ExpectGood(c, Values::kPartialInfinity);
    c.in_place = true;
    c.operation = Operation::kLogSoftmax;
    for (const Values values : {Values::kNan, Values::kLargest}) ExpectGood(c, values);
  }
}

// In strips of which the last one is cut off.
TEST_F(RowsTest, ALongOtherAxisOfSeveralStripsTakesEveryValue) {
  for (const auto& [type, operation] : Product(kTypesUpTo32Bits, kBothOperations)) {
    RowCase c = CaseOf(type, operation, 9001, 2);
    for (const std::int64_t bytes : {80, 84}) {  // vectors, words
      c.inner = bytes / static_cast<std::int64_t>(SizeOf(type));
      for (const Values values : kAllValues) ExpectGood(c, values);
    }
  }
}

TEST_F(RowsTest, ALongOtherAxisOfWideStripsTakesEveryValue) {
  for (const auto& [type, operation] :
       {std::pair(DataType::kFloat32, Operation::kLogSoftmax), std::pair(DataType::kBFloat16, Operation::kSoftmax)}) {
    RowCase c = CaseOf(type, operation, 9001, 5);
    for (const std::int64_t bytes : {368, 372}) {  // vectors that miss the sectors, words
      c.inner = bytes / static_cast<std::int64_t>(SizeOf(type));
      for (const Values values : kAllValues) ExpectGood(c, values);
    }
  }
}

// 16-bit rows in slices of a cluster, and in parts that blocks take in turn. Their exponentials' plain form is not for
// all maxima.
TEST_F(RowsTest, WideRowsOf16BitsTakeEveryMaximum) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    for (const auto& [outer, cols] : {std::pair(17, 280001), std::pair(3, 530001)}) {
      for (const Operation operation : kBothOperations) {
        RowCase c = CaseOf(type, operation, cols, outer);
        for (const Values values : {Values::kNormal50, Values::kPartialInfinity, Values::kNan, Values::kLargest}) {
          ExpectGood(c, values);
        }
      }
    }
  }
}

TEST_F(RowsTest, VeryWideRowsAreWithinTheBounds) {
  RowCase c;
  c.cols = 8'000'003;
  ExpectGood(c, Values::kNormal);
  c.outer = 3;
  c.cols = 1'000'001;
  c.input_type = c.output_type = DataType::kFloat64;
  ExpectGood(c, Values::kNormal);
  c.in_place = true;
  c.input_offset = 1;
  ExpectGood(c, Values::kPartialInfinity);
}

std::vector<std::byte> BytesOf(const std::vector<float>& values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + values.size() * sizeof(float)};
}

// Rows whose largest element has half of the sum or more: the bound leaves 6 ulp for all roundings of the sum, and near
// 1 an ulp of the result is half an ulp of the sum.
TEST_F(RowsTest, RowsWithOneLargeElementAreWithinTheBounds) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> above(-0.5f, 6.0f);
  for (const std::int64_t cols :
       {3, 17, 60, 100, 257, 513, 781, 1024, 1025, 4096, 9000, 40000, 262144, 300001, 2000003}) {
    for (const std::int64_t inner : {1, 3}) {
      RowCase c;
      c.cols = cols;
      c.inner = inner;
      c.outer = std::min<std::int64_t>(20000, (cols > 100'000 ? 20'000'000 : 4'000'000) / cols / inner);
      std::vector<float> values(static_cast<std::size_t>(c.Elements()));
      for (float& value : values) value = normal(random);
      for (std::int64_t row = 0; row < c.outer * inner; ++row) {
        const std::int64_t first = row / inner * cols * inner + row % inner;
        double sum = 0;
        for (std::int64_t i = 0; i < cols; ++i) sum += std::exp(values[static_cast<std::size_t>(first + i * inner)]);
        const auto place = first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(cols)) * inner;
        values[static_cast<std::size_t>(place)] = static_cast<float>(std::log(sum)) + above(random);
      }
      const std::vector<std::byte> input = BytesOf(values);
      std::vector<std::byte> output = RunCase(c, input);
      const Judgement judgement =
          Judge(c.input_type, c.output_type, HostSegment(c, input.data(), output.data()), Bounds::kUsual);
      std::printf("  %6d columns, inner %d: worst error / bound %.3f\n", static_cast<int>(cols),
                  static_cast<int>(inner), judgement.worst);
      EXPECT_TRUE(judgement.ok) << c.Name() << ": " << judgement.failures << " wrong, " << judgement.message;
    }
  }
}

// See tests/support/two_values.h.
TEST_F(RowsTest, RowsOfTwoValuesAreOffByTheMeanDistanceAtMost) {
  double worst = 0;
  for (const softmax::testing::TwoValues& row : softmax::testing::RowsOfTwoValues()) {
    const std::vector<std::byte> input = BytesOf(row.Row());
    RowCase c;
    c.cols = row.cols;
    std::vector<std::byte> output = RunCase(c, input);
    EXPECT_TRUE(softmax::testing::AreShares(reinterpret_cast<const float*>(output.data()), row.cols)) << row.cols;
    const Judgement result =
        Judge(c.input_type, c.output_type, HostSegment(c, input.data(), output.data()), Bounds::kUsual);
    EXPECT_TRUE(result.ok) << result.message;
    worst = std::max(worst, result.worst);
  }
  std::printf("  rows of two values: at most %.2f of the usual bound\n", worst);
}

TEST_F(RowsTest, ZeroesWouldFail) {
  RowCase c;
  c.outer = 4;
  c.cols = 100;
  const std::vector<std::byte> input = MakeValues(Values::kNormal, c.input_type, c.Elements(), 1);
  std::vector<std::byte> zeroes(input.size());
  EXPECT_FALSE(Judge(c.input_type, c.output_type, HostSegment(c, input.data(), zeroes.data())).ok);
}

}  // namespace
}  // namespace softmax::kernels::testing
