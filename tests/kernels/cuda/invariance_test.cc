#include <algorithm>
#include <array>
#include <random>

#include "tests/kernels/cuda/row_case.h"

// A row's bits depend on the row alone: not on where it starts, on its neighbours, on the axis, or on whether its
// length is given. (Batches: batch_test.cc.)
namespace softmax::kernels::testing {
namespace {

using InvarianceTest = GpuTest;

std::vector<std::byte> Row(const std::vector<std::byte>& all, const RowCase& c, std::int64_t row, DataType type) {
  std::vector<std::byte> out(static_cast<std::size_t>(c.cols) * SizeOf(type));
  const std::size_t size = SizeOf(type);
  for (std::int64_t i = 0; i < c.cols; ++i) {
    const std::int64_t from = (row / c.inner * c.cols + i) * c.inner + row % c.inner + row / c.inner * c.padding;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(from * static_cast<std::int64_t>(size)), size,
                out.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::int64_t>(size)));
  }
  return out;
}

std::vector<std::int64_t> Widths(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> widths = {1, 2, 3, 7, 8, 12, 24, 31, 32, 33, 40, 47, 61, 511, 512, 513, 1023, 1024, 1025};
  for (int i = 0; i < 30; ++i) widths.push_back(1 + random() % (i < 20 ? 3000 : 60000));
  widths.push_back(700001);
  return widths;
}

TEST_F(InvarianceTest, EveryStartGivesTheSameBits) {
  for (const DataType type : kAllTypes) {
    for (const std::int64_t cols : Widths(static_cast<unsigned>(type))) {
      RowCase c = CaseOf(type, Operation::kSoftmax, cols);
      const auto input = MakeValues(Values::kNormal50, type, cols, 9);
      const auto expected = RunCase(c, input);
      const std::int64_t starts = 16 / static_cast<std::int64_t>(SizeOf(type));
      for (std::int64_t start = 1; start < starts; ++start) {
        c.input_offset = start;
        c.output_offset = start * 3 % starts;
        EXPECT_EQ(expected, RunCase(c, input)) << c.Name();
      }
    }
  }
}

TEST_F(InvarianceTest, ARowAmongManyGivesTheBitsItGivesAlone) {
  for (const DataType type : kAllTypes) {
    for (const std::int64_t cols : Widths(20 + static_cast<unsigned>(type))) {
      RowCase many = CaseOf(type, Operation::kSoftmax, cols, std::min<std::int64_t>(300, 1 + 3'000'000 / cols));
      const auto input = MakeValues(Values::kNormal, type, many.Elements(), 11);
      const auto outputs = RunCase(many, input);
      RowCase one = many;
      one.outer = 1;
      for (const std::int64_t row : {std::int64_t{0}, many.outer / 2, many.outer - 1}) {
        EXPECT_EQ(Row(outputs, many, row, type), RunCase(one, Row(input, many, row, type)))
            << many.Name() << " row " << row;
      }
    }
  }
}

TEST_F(InvarianceTest, AnotherAxisGivesTheBitsOfTheContiguousRow) {
  for (const DataType type : kAllTypes) {
    for (const auto& [cols, inner] : Product(Widths(40 + static_cast<unsigned>(type)), Ints{3, 17, 64})) {
      if (cols * inner > (inner == 64 ? 500'000 : 3'000'000)) continue;
      const RowCase other = CaseOf(type, Operation::kSoftmax, cols, 1, inner);
      const auto input = MakeValues(Values::kNormal, type, other.Elements(), 13);
      const auto outputs = RunCase(other, input);
      RowCase one = other;
      one.inner = 1;
      for (const std::int64_t row : {std::int64_t{0}, inner - 1}) {
        EXPECT_EQ(Row(outputs, other, row, type), RunCase(one, Row(input, other, row, type)))
            << other.Name() << " row " << row;
      }
    }
  }
}

// So many that two blocks share a row; their columns miss the sectors of memory.
TEST_F(InvarianceTest, ManyRowsOverAnotherAxisGiveTheBitsOfContiguousOnes) {
  for (const auto& [type, cols, operation] : Product(kAllTypes, Ints{577, 1000, 1024}, kBothOperations)) {
    const RowCase other = CaseOf(type, operation, cols, 20, 200);
    const auto input = MakeValues(Values::kNormal, type, other.Elements(), 15);
    const auto outputs = RunCase(other, input);
    RowCase one = other;
    one.outer = one.inner = 1;
    for (const std::int64_t row : {0, 31, 32, 199, 2177, 3999}) {
      EXPECT_EQ(Row(outputs, other, row, type), RunCase(one, Row(input, other, row, type)))
          << other.Name() << " row " << row;
    }
  }
}

// Of some rows of a tensor with another axis.
void ExpectBitsOfContiguousRows(DataType type, std::int64_t outer, std::int64_t cols, std::int64_t inner) {
  RowCase other = CaseOf(type, Operation::kSoftmax, cols, outer, inner);
  const auto input = MakeValues(Values::kNormal, type, other.Elements(), 19);
  for (const Operation operation : kBothOperations) {
    other.operation = operation;
    const auto outputs = RunCase(other, input);
    RowCase one = other;
    one.outer = one.inner = 1;
    const std::int64_t rows = outer * inner;
    for (const std::int64_t row : {std::int64_t{0}, inner - 1, inner + 1, rows / 2 - 1, rows / 2 + 2, rows - 2}) {
      if (row >= rows) continue;
      EXPECT_EQ(Row(outputs, other, row, type), RunCase(one, Row(input, other, row, type)))
          << other.Name() << " row " << row;
    }
  }
}

// Columns that miss the 16-byte boundaries in every way, and enough of them that a block takes several outer blocks.
TEST_F(InvarianceTest, ColumnsOffTheBoundariesGiveTheBitsOfContiguousRows) {
  for (const DataType type : kAllTypes) {
    for (const auto [outer, cols, inner] : {std::array<std::int64_t, 3>{4000, 65, 3},
                                            {2000, 193, 5},
                                            {1600, 100, 9},
                                            {40, 781, 7},
                                            {9, 500, 31},
                                            {40, 500, 31},
                                            {40, 257, 33},
                                            {40, 516, 33},
                                            {40, 300, 34},
                                            {40, 700, 20},
                                            {5, 1025, 31},
                                            {40, 1025, 31},
                                            {40, 2000, 5},
                                            {40, 8193, 7},
                                            {9, 100, 1001},
                                            {9, 385, 1001},
                                            {3, 1000, 1003},
                                            {2, 4096, 157},
                                            {4, 20000, 13}}) {
      ExpectBitsOfContiguousRows(type, outer, cols, inner);
    }
  }
}

constexpr std::size_t kRowsToOneAlone = 12;

// Whole strips are compared, so that what is left out between two of them shows: all their rows with contiguous rows
// that go together, some also with rows alone.
void ExpectStripsOfContiguousRows(const RowCase& other, const std::vector<std::byte>& values) {
  const std::vector<std::byte> input(
      values.begin(), values.begin() + other.Elements() * static_cast<std::int64_t>(SizeOf(other.input_type)));
  const auto outputs = RunCase(other, input);
  const std::int64_t rows = other.outer * other.inner;
  std::vector<std::int64_t> compared;
  for (std::int64_t row = 0; row < rows; row += row == 129 ? rows - 200 : 1) compared.push_back(row);
  RowCase contiguous = other;
  contiguous.outer = static_cast<std::int64_t>(compared.size());
  contiguous.inner = 1;
  contiguous.padding = 0;
  std::vector<std::byte> gathered;
  for (const std::int64_t row : compared) {
    const auto bytes = Row(input, other, row, other.input_type);
    gathered.insert(gathered.end(), bytes.begin(), bytes.end());
  }
  const auto expected = RunCase(contiguous, gathered);
  RowCase one = contiguous;
  one.outer = 1;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const auto bits = Row(outputs, other, compared[i], other.input_type);
    ASSERT_EQ(bits, Row(expected, contiguous, static_cast<std::int64_t>(i), other.input_type))
        << other.Name() << " row " << compared[i];
    if (i % kRowsToOneAlone != 0) continue;
    ASSERT_EQ(bits, RunCase(one, Row(input, other, compared[i], other.input_type)))
        << other.Name() << " row " << compared[i] << " alone";
  }
}

class InvarianceOfType : public GpuTest, public ::testing::WithParamInterface<DataType> {};
INSTANTIATE_TEST_SUITE_P(Types, InvarianceOfType, ::testing::ValuesIn(kTypesUpTo32Bits), NameOfType);

// Columns that miss the sectors of memory.
TEST_P(InvarianceOfType, StripsOffTheSectorsGiveTheBitsOfContiguousRows) {
  const DataType type = GetParam();
  constexpr std::int64_t kMostElements = 23'000'000;
  const auto values = MakeValues(Values::kNormal, type, kMostElements, 23);
  for (const auto [outer, cols, inner] : {std::array<std::int64_t, 3>{70, 520, 281},
                                          {25, 1000, 801},
                                          {50, 1024, 362},
                                          {36, 768, 642},
                                          {44, 1000, 520},
                                          {40, 600, 600},
                                          {9, 2040, 1129},
                                          {11, 3000, 601},
                                          {5, 4000, 1126}}) {
    for (const Operation operation : kBothOperations) {
      RowCase other = CaseOf(type, operation, cols, outer, inner);
      other.input_offset = inner % 3;
      // 16-bit elements lie in words alike.
      other.output_offset =
          type == DataType::kFloat32 ? (outer % 2 == 0 ? inner % 4 : 0) : inner % 3 % 2 + outer % 2 * 2;
      other.padding = outer % 4;
      ASSERT_LE(other.Elements(), kMostElements);
      ExpectStripsOfContiguousRows(other, values);
    }
  }
}

// Columns of many chunks, in whole strips and in some that are cut off.
TEST_F(InvarianceTest, LongStripsGiveTheBitsOfContiguousRows) {
  for (const DataType type : kTypesUpTo32Bits) {
    const auto vector = 16 / static_cast<std::int64_t>(SizeOf(type));
    for (const auto [outer, cols, vectors] : {std::array<std::int64_t, 3>{1, 60001, 6},
                                              {2, 130001, 3},
                                              {1, 250000, 5},
                                              {9, 70001, 40 / vector},
                                              {2, 34000, 320 / vector},
                                              {3, 10007, 800 / vector}}) {
      for (const Operation operation : kBothOperations) {
        RowCase other = CaseOf(type, operation, cols, outer, vectors * vector);
        other.padding = outer % 2 * vector;
        other.in_place = outer == 1;
        ExpectStripsOfContiguousRows(other, MakeValues(Values::kNormal, type, other.Elements(), 29));
      }
    }
  }
}

TEST_F(InvarianceTest, LongStripsOfManyRowsGiveTheBitsOfContiguousRows) {
  for (const auto& [type, operation] :
       {std::pair(DataType::kFloat32, Operation::kSoftmax), std::pair(DataType::kFloat32, Operation::kLogSoftmax),
        std::pair(DataType::kFloat16, Operation::kLogSoftmax), std::pair(DataType::kBFloat16, Operation::kSoftmax)}) {
    const auto vector = 16 / static_cast<std::int64_t>(SizeOf(type));
    for (const auto [outer, cols, vectors] : {std::array<std::int64_t, 3>{5, 9001, 23}, {1, 101500, 8}}) {
      const RowCase other = CaseOf(type, operation, cols, outer, vectors * vector);
      ExpectStripsOfContiguousRows(other, MakeValues(Values::kNormal, type, other.Elements(), 37));
    }
  }
}

// The same where columns are words and no vectors, by their distance or by where they begin.
TEST_F(InvarianceTest, LongStripsInWordsGiveTheBitsOfContiguousRows) {
  for (const DataType type : kTypesUpTo32Bits) {
    for (const auto& [outer, cols, inner, start] :
         {std::array<std::int64_t, 4>{1, 60001, 46, 0}, {2, 34000, 160, 2}, {2, 100001, 14, 2}, {3, 9001, 602, 4}}) {
      for (const Operation operation : kBothOperations) {
        RowCase other = CaseOf(type, operation, cols, outer, inner + (type == DataType::kFloat32 ? outer % 2 : 0));
        other.input_offset = start;
        other.output_offset = start % 4;
        other.padding = outer % 2 * 2;
        ExpectStripsOfContiguousRows(other, MakeValues(Values::kNormal, type, other.Elements(), 31));
      }
    }
  }
}

// Columns of whole vectors that miss the sectors of memory.
TEST_F(InvarianceTest, AlignedStripsOffTheSectorsGiveTheBitsOfContiguousRows) {
  for (const DataType type : kTypesUpTo32Bits) {
    const auto values = MakeValues(Values::kNormal, type, 17'500'000, 29);
    const auto vector = 16 / static_cast<std::int64_t>(SizeOf(type));
    for (const auto& [outer, cols, inner] :
         {std::array<std::int64_t, 3>{150, 520, 200}, {48, 1000, 360}, {40, 1024, 328}, {90, 300, 520}}) {
      for (const Operation operation : kBothOperations) {
        RowCase other = CaseOf(type, operation, cols, outer, inner + (type == DataType::kFloat32 ? vector : 0));
        other.output_offset = cols == 1000 ? vector : 0;
        other.padding = cols == 1024 ? vector : 0;
        ExpectStripsOfContiguousRows(other, values);
      }
    }
  }
}

// Columns that no cluster can hold.
TEST_F(InvarianceTest, LongColumnsGiveTheBitsOfContiguousRows) {
  for (const DataType type : kAllTypes) {
    for (const auto& [outer, cols, inner] :
         {std::array<std::int64_t, 3>{1, 60001, 40}, {2, 70000, 16}, {1, 140001, 16}}) {
      ExpectBitsOfContiguousRows(type, outer, cols, inner);
    }
  }
}

TEST_F(InvarianceTest, FullLengthsGiveTheBitsOfNone) {
  for (const DataType type : kAllTypes) {
    for (const std::int64_t cols : Widths(60 + static_cast<unsigned>(type))) {
      RowCase c = CaseOf(type, Operation::kSoftmax, cols, 2);
      const auto input = MakeValues(Values::kNormal, type, c.Elements(), 17);
      const auto expected = RunCase(c, input);
      c.lengths.assign(2, static_cast<std::uint32_t>(cols));
      EXPECT_EQ(expected, RunCase(c, input)) << c.Name();
    }
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
