#include <array>
#include <cmath>
#include <cstring>

#include "tests/kernels/cuda/batch.h"

// Results of another type than the input's are those of one type until the last rounding: whichever kernel runs a row.
namespace softmax::kernels::testing {
namespace {

using MixedRowsTest = GpuTest;

// The type that holds what is computed before the last rounding.
DataType ComputedType(DataType input_type) {
  return input_type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
}

// The first element of some rows in which they differ once rounded to a type, where any NaN is as good as another; -1:
// none.
std::int64_t Difference(const RowCase& c, const std::vector<std::byte>& full, const std::vector<std::byte>& output) {
  constexpr std::int64_t kAllRows = 100;
  const DataType computed = ComputedType(c.input_type);
  std::vector<std::byte> rounded(SizeOf(c.output_type));
  const std::int64_t step = c.outer <= kAllRows ? 1 : c.outer / kAllRows * 2 + 1;
  for (std::int64_t row = 0; row < c.outer;
       row = row + step >= c.outer && row < c.outer - 1 ? c.outer - 1 : row + step) {
    for (std::int64_t i = row * c.cols; i < (row + 1) * c.cols; ++i) {
      const double value = LoadElement(computed, full.data(), i);
      StoreElement(c.output_type, rounded.data(), 0, value);
      if (std::memcmp(rounded.data(), &output[static_cast<std::size_t>(i) * rounded.size()], rounded.size()) == 0)
        continue;
      if (!std::isnan(value) || !std::isnan(LoadElement(c.output_type, output.data(), i))) return i;
    }
  }
  return -1;
}

void ExpectOneValueForAllTypes(RowCase c, const std::vector<std::byte>& input) {
  c.output_type = ComputedType(c.input_type);
  const auto full = RunCase(c, input);
  for (const DataType output : kAllTypes) {
    c.output_type = output;
    const auto results = RunCase(c, input);
    // RunCase() looks at gaps.
    if (c.padding == 0) {
      RowCase all = c;  // the elements as they follow each other
      all.outer = c.outer * c.inner;
      EXPECT_EQ(-1, Difference(all, full, results)) << c.Name();
    }
  }
}
void ExpectOneValueForAllTypes(const RowCase& c, Values values) {
  ExpectOneValueForAllTypes(c, MakeValues(values, c.input_type, c.Elements(), 23, c.cols));
}

struct Rows {
  std::int64_t outer;
  std::int64_t cols;
};

TEST_F(MixedRowsTest, EveryTypeHasTheValueOfOneType) {
  // Small rows of every number of slots, in tiles of rows with a thread for each or several, one chunk and more, in a
  // block, in clusters, so few that many blocks share each, and so wide that the general kernel is left; on and off the
  // boundaries.
  constexpr Rows kRows[] = {{9001, 10},   {9001, 21},   {40003, 33},  {40003, 45},  {70001, 50},  {70001, 63},
                            {33001, 55},  {34001, 100}, {17001, 197}, {17001, 333}, {9001, 577},  {9001, 700},
                            {6401, 1001}, {1, 2049},    {3, 10007},   {64, 30522},  {8, 100003},  {1, 250001},
                            {300, 1027},  {5000, 1},    {3000, 5},    {3000, 8},    {2000, 16},   {2000, 31},
                            {1000, 64},   {500, 100},   {500, 192},   {400, 257},   {300, 512},   {300, 700},
                            {300, 1000},  {6, 1024},    {1700, 2049}, {1650, 4096}, {60, 5003},   {700, 9001},
                            {16, 16384},  {200, 50257}, {1, 131072},  {1, 50257},   {26, 262144}, {3, 300001}};
  for (const auto& [input, rows] : Product(kAllTypes, kRows)) {
    RowCase c = CaseOf(input, Operation::kSoftmax, rows.cols, rows.outer);
    const auto values = MakeValues(Values::kNormal50, input, c.Elements(), 31, c.cols);
    for (const Operation operation : kBothOperations) {
      c.operation = operation;
      ExpectOneValueForAllTypes(c, values);
    }
  }
}

TEST_F(MixedRowsTest, AnyStartAndGapIsAsGood) {
  constexpr Rows kRows[] = {{40, 7}, {40, 130}, {40, 777}, {900, 1030}, {40, 3001}, {5, 40000}};
  for (const auto& [input, rows, start] : Product(kAllTypes, kRows, Ints{1, 2, 3, 4, 7})) {
    RowCase c = CaseOf(input, Operation::kSoftmax, rows.cols, rows.outer);
    c.input_offset = start;
    for (const std::int64_t other : {start, start + 8, start + 1}) {
      c.output_offset = other;
      ExpectOneValueForAllTypes(c, Values::kNormal);
    }
    c.output_offset = start;
    c.padding = start;
    ExpectOneValueForAllTypes(c, Values::kNormal);
  }
}

TEST_F(MixedRowsTest, AnotherAxisIsAsGood) {
  struct Axis {
    std::int64_t outer;
    std::int64_t cols;
    std::int64_t inner;
  };
  // Rows of few columns, of up to a chunk, of several chunks in a block and in clusters, and of more than these hold;
  // units of whole vectors and of single elements; outer blocks that are narrower than a strip.
  constexpr Axis kShapes[] = {{8, 19, 4096}, {4, 150, 1000}, {3, 21, 1003}, {4, 2, 4096},  {2, 1000, 100}, {300, 40, 3},
                              {1, 3000, 64}, {2, 1500, 33},  {5, 7, 256},   {1, 70000, 9}, {1, 300000, 8}};
  for (const auto& [input, axis, start] : Product(kAllTypes, kShapes, Ints{0, 1})) {
    RowCase c = CaseOf(input, Operation::kSoftmax, axis.cols, axis.outer, axis.inner);
    c.input_offset = c.output_offset = start;
    const auto values = MakeValues(Values::kNormal50, input, c.Elements(), 37, c.cols);
    ExpectOneValueForAllTypes(c, values);
    c.padding = 8;
    ExpectOneValueForAllTypes(c, Values::kLargest);
    c.padding = 0;
    c.operation = Operation::kLogSoftmax;
    ExpectOneValueForAllTypes(c, values);
    for (std::int64_t r = 0; r < c.outer * c.inner; ++r) {
      c.lengths.push_back(static_cast<std::uint32_t>((r * 2654435761) % (c.cols + 1)));
    }
    ExpectOneValueForAllTypes(c, values);
  }
}

TEST_F(MixedRowsTest, EveryValueAndLengthIsAsGood) {
  constexpr Rows kRows[] = {{30, 3},    {30, 100},  {30, 1000}, {900, 1040}, {900, 2051}, {40, 12288},
                            {6, 65537}, {2, 65536}, {5001, 9},  {5001, 21},  {3, 5003}};
  for (const auto& [input, rows, values] : Product(kAllTypes, kRows, kAllValues)) {
    RowCase c =
        CaseOf(input, values == Values::kSpike ? Operation::kLogSoftmax : Operation::kSoftmax, rows.cols, rows.outer);
    ExpectOneValueForAllTypes(c, values);
    for (std::int64_t r = 0; r < c.outer; ++r) {
      c.lengths.push_back(static_cast<std::uint32_t>((r * 2654435761) % (c.cols + 1)));
    }
    c.operation = values == Values::kSpike ? Operation::kSoftmax : Operation::kLogSoftmax;
    ExpectOneValueForAllTypes(c, values);
  }
}

TEST_F(MixedRowsTest, TilesOfEveryLengthAreAsGood) {
  for (const DataType input : {DataType::kFloat32, DataType::kBFloat16}) {
    for (const Rows rows : {Rows{34001, 99}, Rows{17001, 197}}) {
      for (const Values values : {Values::kNormal, Values::kPartialInfinity, Values::kNan}) {
        RowCase c = CaseOf(input, values == Values::kNormal ? Operation::kLogSoftmax : Operation::kSoftmax, rows.cols,
                           rows.outer);
        for (std::int64_t r = 0; r < c.outer; ++r) {
          c.lengths.push_back(static_cast<std::uint32_t>((r * 2654435761) % (c.cols + 1)));
        }
        ExpectOneValueForAllTypes(c, values);
      }
    }
  }
}

// So many rows of one type that lie in each other's place: both types have 16 bits.
TEST_F(MixedRowsTest, InPlaceIsAsGood) {
  for (const std::int64_t cols : {3, 64, 129, 1000, 2048, 2051, 20000, 100003}) {
    RowCase c = CaseOf(DataType::kBFloat16, Operation::kSoftmax, cols, std::max<std::int64_t>(2, 2'000'000 / cols));
    c.output_type = DataType::kFloat16;
    const auto input = MakeValues(Values::kNormal, c.input_type, c.Elements(), 29, cols);
    const auto apart = RunCase(c, input);
    c.in_place = true;
    EXPECT_EQ(apart, RunCase(c, input)) << c.Name();
  }
}

TEST_F(MixedRowsTest, RowsInCompanyHaveTheBitsTheyHaveAlone) {
  unsigned seed = 7000;
  for (const auto& [input, output] : Product(kAllTypes, kAllTypes)) {
    if (input == output) continue;
    const std::int64_t widest = std::int64_t{65536} * 8 / static_cast<std::int64_t>(SizeOf(input));
    for (const int count : {2, 33, 300}) {
      auto parts = ContiguousParts(input, count, count == 33 ? 2000 : widest, count != 300, ++seed);
      for (BatchPart& part : parts) part.shape.output_type = output;
      const auto outputs = RunBatch(input, output, parts, count == 2 ? Place::kMapped : Place::kDevice);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_EQ(RunCase(parts[i].shape, parts[i].input), outputs[i]) << "part " << i << ": " << parts[i].shape.Name();
      }
    }
  }
}

TEST_F(MixedRowsTest, EveryPairIsWithinTheBounds) {
  for (const auto& [input, output] : Product(kAllTypes, kAllTypes)) {
    if (input == output) continue;
    for (const Rows rows : {Rows{40, 64}, Rows{30, 1000}, Rows{1650, 4096}, Rows{40, 32000}, Rows{3, 50257}}) {
      for (const Operation operation : kBothOperations) {
        RowCase c = CaseOf(input, operation, rows.cols, rows.outer);
        c.output_type = output;
        ExpectGood(c, Values::kNormal);
      }
    }
    RowCase c = CaseOf(input, Operation::kSoftmax, 150, 3, 1000);
    c.output_type = output;
    ExpectGood(c, Values::kNormal);
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
