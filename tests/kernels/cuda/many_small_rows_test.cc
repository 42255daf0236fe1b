#include <initializer_list>
#include <iterator>

#include "tests/kernels/cuda/row_count.h"

// Many aligned small rows: several groups of lanes take their rows at a time, of which few rows have one each.
namespace softmax::kernels::testing {
namespace {

using ManySmallRowsTest = GpuTest;

// Vectors of a row, for every number that its lanes hold and all numbers of lanes.
constexpr std::int64_t kVectors[] = {7,  8,  9,  10, 11, 12, 13, 16, 17, 20, 22, 24,
                                     25, 32, 33, 40, 41, 48, 49, 64, 65, 80, 81, 96};
class ManySmallRowsOfType : public GpuTest, public ::testing::WithParamInterface<DataType> {};
INSTANTIATE_TEST_SUITE_P(Types, ManySmallRowsOfType, ::testing::ValuesIn(kTypesUpTo32Bits), NameOfType);

std::int64_t ColumnsOf(DataType type, std::int64_t vectors) {
  return vectors * 16 / static_cast<std::int64_t>(SizeOf(type));
}

// More rows than one wave of lanes takes, in blocks of which the last is not full.
std::int64_t ManyRows(std::int64_t vectors) { return 9'500'000 / (vectors * 16) | 1; }

TEST_P(ManySmallRowsOfType, ManyGiveTheBitsOfRowsAlone) {
  const DataType type = GetParam();
  for (const Operation operation : kBothOperations) {
    std::size_t i = 0;
    for (const std::int64_t vectors : kVectors) {
      RowCase c = CaseOf(type, operation, ColumnsOf(type, vectors));
      const std::int64_t count = ManyRows(vectors);
      ExpectSameBits(c, kAllValues[i++ % std::size(kAllValues)], {count});
      ExpectSameBits(c, Values::kNormal, {count + 2});
      c.padding = i % 2 == 0 ? ColumnsOf(type, 1) : 0;
      c.lengths = LengthsOf(kDistinctRows, c.cols);
      c.in_place = i % 3 == 0;
      ExpectSameBits(c, Values::kNormal50, {count});
    }
  }
}

// With every kind of values, against the reference.
TEST_F(ManySmallRowsTest, EveryValueIsWithinTheBounds) {
  for (const auto& [type, operation, values] : Product(kTypesUpTo32Bits, kBothOperations, kAllValues)) {
    RowCase c = CaseOf(type, operation, ColumnsOf(type, 40));
    c.outer = 9001;
    ExpectGood(c, values);
  }
}

// In large tensors.
void ExpectLargeTensorsGiveTheBitsOfRowsAlone(DataType type, Operation operation,
                                              std::initializer_list<std::int64_t> vectors) {
  constexpr std::int64_t kBytes = 66'000'000;
  for (const std::int64_t count : vectors) {
    RowCase c = CaseOf(type, operation, ColumnsOf(type, count));
    const std::int64_t rows = kBytes / (count * 16) | 1;
    ExpectSameBits(c, Values::kPartialInfinity, {rows});
    c.lengths = LengthsOf(kDistinctRows, c.cols);
    ExpectSameBits(c, Values::kNormal50, {rows});
  }
}

// Rows of one vector more than lanes hold evenly.
TEST_F(ManySmallRowsTest, LargeTensorsOfOddVectorsGiveTheBitsOfRowsAlone) {
  ExpectLargeTensorsGiveTheBitsOfRowsAlone(DataType::kFloat16, Operation::kSoftmax, {9});
  ExpectLargeTensorsGiveTheBitsOfRowsAlone(DataType::kBFloat16, Operation::kLogSoftmax, {9});
  ExpectLargeTensorsGiveTheBitsOfRowsAlone(DataType::kFloat32, Operation::kLogSoftmax, {17});
}

// Rows that lanes hold evenly.
TEST_F(ManySmallRowsTest, LargeTensorsOfFewVectorsGiveTheBitsOfRowsAlone) {
  ExpectLargeTensorsGiveTheBitsOfRowsAlone(DataType::kFloat16, Operation::kSoftmax, {2, 4});
  ExpectLargeTensorsGiveTheBitsOfRowsAlone(DataType::kBFloat16, Operation::kLogSoftmax, {2, 4, 6});
  ExpectLargeTensorsGiveTheBitsOfRowsAlone(DataType::kFloat32, Operation::kSoftmax, {6, 10, 12});
  ExpectLargeTensorsGiveTheBitsOfRowsAlone(DataType::kFloat32, Operation::kLogSoftmax, {4, 8, 10, 14});
}

}  // namespace
}  // namespace softmax::kernels::testing
