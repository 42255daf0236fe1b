#include "tests/kernels/cuda/row_count.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <span>

// How many rows there are decides which kernel takes them (a block for each of few, all at a time, a warp for two
// chunks, clusters of any size), and shows in no bit.
namespace softmax::kernels::testing {
namespace {

using RowCountTest = GpuTest;
class RowCountOfType : public GpuTest, public ::testing::WithParamInterface<DataType> {};
class RowCountOfAnyType : public RowCountOfType {};
INSTANTIATE_TEST_SUITE_P(Types, RowCountOfType, ::testing::ValuesIn(kTypesUpTo32Bits), NameOfType);
INSTANTIATE_TEST_SUITE_P(Types, RowCountOfAnyType, ::testing::ValuesIn(kAllTypes), NameOfType);

constexpr std::int64_t kWidths[] = {8,   12,  24,  33,   36,   40,   44,   52,   60,   61,   100,   200,
                                    300, 513, 781, 1000, 1024, 1025, 1281, 1500, 1823, 2048, 16400, 40000};
constexpr std::int64_t kCounts[] = {kDistinctRows, 40, 300, 603, 6000};  // 603: blocks of several rows end with fewer
constexpr std::int64_t kMostElements = 2'100'000;
// Dense rows, most of them off the 16-byte boundaries, which go in tiles where there are many: all sizes of a thread's
// part.
constexpr std::int64_t kTileWidths[] = {33,  35,  40,  47,  48,  49,  56,  63,  65,  90,  97,  129, 132, 137,
                                        155, 191, 257, 263, 383, 388, 389, 500, 519, 555, 639, 700, 781, 1023};
constexpr std::int64_t kOneRoundBytes = 9'200'000;  // of 16 bits: each thread of a tile has one row,
constexpr std::int64_t kRoundsBytes = 45'000'000;   // or several
constexpr std::int64_t kFloat32Bytes = 36'000'000;
constexpr std::int64_t kFewFloat32Bytes = 12'000'000;  // where the widest rows of a thread each go in tiles too
// Rows off the boundaries that go to a warp or a few each where there are many.
constexpr std::int64_t kBulkWidths[] = {1025, 1151, 1279, 1281, 1823, 2243, 4097, 8193, 8909, 10007, 12801, 20393};
constexpr std::int64_t kDoubleBulkWidths[] = {513, 767, 1001, 2049, 4097, 5003, 8192, 9001};
constexpr std::int64_t kBulkBytes = 18'000'000;
// Rows in the host's memory, of all kinds that few blocks take and of one that they do not, and enough that each warp
// or block has several.
constexpr std::int64_t kHostWidths[] = {1,    3,    8,    16,   30,   33,   64,    72,    96,    100,
                                        160,  192,  257,  300,  384,  500,  777,   1000,  1024,  1025,
                                        1500, 2048, 2049, 3000, 5003, 8192, 16384, 32768, 40000, 70000};
constexpr std::int64_t kHostBytes[] = {300'000, 4'000'000};

// As many rows as are too many for few rows' kernels: they go to a warp each, or to clusters.
constexpr std::int64_t kManyBytes = 27'000'000;

std::vector<std::int64_t> CountsFor(std::int64_t cols) {
  std::vector<std::int64_t> counts;
  for (const std::int64_t count : kCounts) {
    if (count == kDistinctRows || count * cols <= kMostElements) counts.push_back(count);
  }
  return counts;
}

TEST_F(RowCountTest, EveryNumberOfRowsGivesTheSameBits) {
  for (const auto& [type, operation, cols] : Product(kAllTypes, kBothOperations, kWidths)) {
    RowCase c = CaseOf(type, operation, cols);
    ExpectSameBits(c, cols % 2 == 0 ? Values::kNormal : Values::kPartialInfinity, CountsFor(cols));
    c.lengths = LengthsOf(kDistinctRows, cols);
    ExpectSameBits(c, Values::kNormal50, CountsFor(cols));
  }
}

// Aligned rows of few chunks, as many as fill the device: a warp for each chunk.
TEST_P(RowCountOfType, RowsOfFewChunksGiveTheBitsOfRowsAlone) {
  const DataType type = GetParam();
  constexpr std::int64_t kElements = 7'500'000;
  for (const Operation operation : kBothOperations) {
    std::size_t i = 0;
    for (const std::int64_t cols : {1032, 1288, 2048, 2056, 3000, 4096, 5128, 8192, 13000}) {
      RowCase c = CaseOf(type, operation, cols);
      const std::vector<std::int64_t> counts = {(kElements / cols) | 1};  // blocks of several rows end with fewer
      ExpectSameBits(c, kAllValues[i++ % std::size(kAllValues)], counts);
      c.padding = i % 2 == 0 ? 8 : 0;
      c.lengths = LengthsOf(kDistinctRows, cols);
      c.in_place = i % 3 == 0;
      ExpectSameBits(c, Values::kNormal50, counts);
    }
  }
}

// Rows that several blocks share: exchanged by groups of chunks, or by chunks where there are no clusters, and then
// more rows than the blocks' table in the workspace holds.
TEST_F(RowCountTest, EveryNumberOfWideRowsGivesTheSameBits) {
  for (const auto& [type, operation, cols] :
       Product(std::array{DataType::kFloat32, DataType::kBFloat16}, kBothOperations, Ints{100'003, 120'000, 540'001})) {
    RowCase c = CaseOf(type, operation, cols);
    const bool cut = operation == Operation::kLogSoftmax;
    if (cut) c.lengths = LengthsOf(kDistinctRows, cols);
    c.in_place = cut;
    ExpectSameBits(c, cut ? Values::kNormal50 : Values::kPartialInfinity, {3, 20'000'000 / cols});
  }
}

// Aligned rows alone or so few that each has many blocks (a cluster's, or of one wide row a grid's), a warp for each
// chunk: with blocks that have fewer chunks than others, and a last chunk of few columns.
TEST_P(RowCountOfType, FewWideRowsGiveTheBitsOfRowsAlone) {
  const DataType type = GetParam();
  const std::int64_t chunk = 2048 / static_cast<std::int64_t>(SizeOf(type));
  std::size_t i = 0;
  for (const Operation operation : kBothOperations) {
    for (const std::int64_t cols :
         {3 * chunk, 40 * chunk + 8, 128 * chunk, 129 * chunk, 250 * chunk + 8, 512 * chunk}) {
      RowCase c = CaseOf(type, operation, cols);
      ExpectSameBits(c, kAllValues[i++ % std::size(kAllValues)], {2, 3, 20});
      c.lengths = LengthsOf(kDistinctRows, cols);
      c.in_place = i % 2 == 0;
      ExpectSameBits(c, Values::kNormal50, {20});
    }
  }
}

// So many bytes of aligned rows wider than a cluster that blocks read the next rows while they wait for each other.
TEST_P(RowCountOfType, ManyBytesOfWideRowsGiveTheBitsOfRowsAlone) {
  const DataType type = GetParam();
  constexpr std::int64_t kBytes = 192 << 20;
  const auto bytes = static_cast<std::int64_t>(SizeOf(type));
  const auto expect = [&](Operation operation, std::int64_t row_bytes, Values values, bool cut) {
    RowCase c = CaseOf(type, operation, row_bytes / bytes);
    if (cut) c.lengths = LengthsOf(kDistinctRows, c.cols);
    c.in_place = cut;
    ExpectSameBits(c, values, {kBytes / row_bytes + 1});
  };
  expect(Operation::kSoftmax, 1'500'032, Values::kNormal50, true);
  expect(Operation::kSoftmax, 6'000'128, Values::kPartialInfinity, false);
  expect(Operation::kLogSoftmax, 6'000'128, Values::kNormal50, true);
  expect(Operation::kSoftmax, 16'000'000, Values::kNormal, true);      // nearly as many groups of chunks as blocks hold
  expect(Operation::kLogSoftmax, 16'777'216, Values::kNormal, false);  // whole rows: every warp holds what it can
  expect(Operation::kSoftmax, 33'554'432, Values::kNormal50, true);    // in registers as well
  expect(Operation::kLogSoftmax, 30'000'128, Values::kNormal, false);
}

TEST_P(RowCountOfType, TilesGiveTheBitsOfRowsAlone) {
  const DataType type = GetParam();
  constexpr std::size_t kKinds = std::size(kAllValues);
  for (const Operation operation : kBothOperations) {
    for (std::size_t i = 0; i < std::size(kTileWidths); ++i) {
      RowCase c = CaseOf(type, operation, kTileWidths[i]);
      const auto row_bytes = c.cols * static_cast<std::int64_t>(SizeOf(type));
      std::vector<std::int64_t> counts = {(type == DataType::kFloat32 ? kFloat32Bytes : kOneRoundBytes) / row_bytes};
      if (type == DataType::kFloat32 && c.cols < 65) counts.push_back(kFewFloat32Bytes / row_bytes);
      ExpectSameBits(c, kAllValues[i % kKinds], counts);
      ExpectSameBits(c, kAllValues[(i + kKinds / 2) % kKinds], counts);
      c.lengths = LengthsOf(kDistinctRows, c.cols);
      c.in_place = i % 2 == 0;
      if (i % 4 == 1 || c.cols == 781) counts = {kRoundsBytes / row_bytes};
      ExpectSameBits(c, Values::kNormal50, counts);
    }
  }
}

TEST_P(RowCountOfAnyType, BulkRowsGiveTheBitsOfRowsAlone) {
  const DataType type = GetParam();
  const std::span<const std::int64_t> widths =
      type == DataType::kFloat64 ? std::span<const std::int64_t>(kDoubleBulkWidths) : kBulkWidths;
  constexpr std::size_t kKinds = std::size(kAllValues);
  for (const Operation operation : kBothOperations) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      RowCase c = CaseOf(type, operation, widths[i]);
      const std::int64_t count = kBulkBytes / (c.cols * static_cast<std::int64_t>(SizeOf(type)));
      ExpectSameBits(c, kAllValues[i % kKinds], {count});
      c.input_offset = c.output_offset = 3;  // the first row too is off the boundaries
      ExpectSameBits(c, kAllValues[(i + kKinds / 2) % kKinds], {count + 1});
      c.lengths = LengthsOf(kDistinctRows, c.cols);
      c.in_place = i % 2 == 0;
      ExpectSameBits(c, Values::kNormal50, {count});
    }
  }
}

// Rows of doubles, few and many, on the boundaries and off them.
TEST_F(RowCountTest, RowsOfSingleDoublesGiveTheBitsOfRowsAlone) {
  for (const Operation operation : kBothOperations) {
    std::size_t i = 0;
    for (const std::int64_t cols : {9, 16, 17, 48, 65, 71, 96, 97, 129, 191, 193, 256, 257, 300, 385, 511, 512}) {
      RowCase c = CaseOf(DataType::kFloat64, operation, cols);
      const std::int64_t count = cols > 256 ? 4301 : 600'000 / cols;  // of two chunks a half warp each
      ExpectSameBits(c, kAllValues[i++ % std::size(kAllValues)], {count});
      c.padding = cols % 2 == 0 ? 1 : 0;
      c.input_offset = c.output_offset = 1;
      ExpectSameBits(c, kAllValues[(i + 4) % std::size(kAllValues)], {count, 1201});
      c.lengths = LengthsOf(kDistinctRows, cols);
      c.in_place = i % 2 == 0;
      ExpectSameBits(c, Values::kNormal50, {count});
    }
  }
}

// What is between rows stays as it is.
TEST_F(RowCountTest, RowsWithGapsGiveTheBitsOfRowsAlone) {
  for (const auto& [type, operation] : Product(kTypesUpTo32Bits, kBothOperations)) {
    std::size_t i = 0;
    for (const std::int64_t cols : {65, 256, 256, 500, 500, 768}) {
      RowCase c = CaseOf(type, operation, cols);
      const std::int64_t bytes = type == DataType::kFloat32 ? kFloat32Bytes : kOneRoundBytes;
      const std::int64_t count = bytes / (cols * static_cast<std::int64_t>(SizeOf(type)));
      c.padding = std::array<std::int64_t, 6>{1, 8, 1, 2, 3, 13}[i % 6];
      ExpectSameBits(c, kAllValues[i++ % std::size(kAllValues)], {count + 5});
      c.lengths = LengthsOf(kDistinctRows, cols);
      c.in_place = i % 2 == 0;
      ExpectSameBits(c, Values::kNormal50, {count});
    }
  }
}

TEST_P(RowCountOfAnyType, RowsInHostMemoryGiveTheBitsOfRowsAlone) {
  const DataType type = GetParam();
  constexpr std::size_t kKinds = std::size(kAllValues);
  for (const Operation operation : kBothOperations) {
    for (std::size_t i = 0; i < std::size(kHostWidths); ++i) {
      RowCase c = CaseOf(type, operation, kHostWidths[i]);
      c.place = Place::kMapped;
      std::vector<std::int64_t> counts;
      for (const std::int64_t bytes : kHostBytes) {
        counts.push_back(bytes / (c.cols * static_cast<std::int64_t>(SizeOf(type))) | 1);
      }
      ExpectSameBits(c, kAllValues[i % kKinds], counts);
      const bool is_strided = (i % 2 == 0) == (operation == Operation::kSoftmax);
      c.input_offset = c.output_offset = is_strided ? 1 : 0;
      c.padding = is_strided && i % 3 != 0 ? 3 : 0;
      c.lengths = LengthsOf(kDistinctRows, c.cols);
      c.in_place = i % 5 < 2;
      ExpectSameBits(c, Values::kNormal50, counts);
      // Rows whose sums many elements make: they tell in which order.
      ExpectSameBits(c, Values::kNormal, counts);
    }
  }
}

// Rows with gaps off the boundaries, fewer than a block has places for. What is read past the last one memcheck sees.
TEST_F(RowCountTest, NothingIsReadPastFewRows) {
  for (const auto& [type, cols] : Product(kAllTypes, Ints{100, 1030})) {
    RowCase c = CaseOf(type, Operation::kSoftmax, cols);
    c.outer = 3;
    c.padding = 3;
    c.input_offset = c.output_offset = 1;
    ExpectGood(c, Values::kNormal);
  }
}

// The same of a row that ends within a vector and runs as a batch.
TEST_F(RowCountTest, NothingIsReadPastFewRowsOfABatch) {
  RowCase c = CaseOf(DataType::kFloat64, Operation::kSoftmax, 43961);
  c.output_type = DataType::kBFloat16;
  for (const int offset : {0, 1}) {
    c.input_offset = c.output_offset = offset;
    c.outer = 1;
    ExpectGood(c, Values::kNormal);
  }
}

// Lengths at the ends of chunks that warps or blocks take, as far as the rows are that wide.
std::vector<std::uint32_t> ChunkLengths(const RowCase& c) {
  const std::int64_t chunk = 2048 / static_cast<std::int64_t>(SizeOf(c.input_type));
  const std::int64_t some[kDistinctRows] = {3 * chunk + 1,  6 * chunk - 1,  8 * chunk,      8 * chunk + 1,
                                            10 * chunk + 1, 16 * chunk - 2, 16 * chunk + 3, c.cols - chunk};
  std::vector<std::uint32_t> lengths;
  for (const std::int64_t length : some) {
    lengths.push_back(static_cast<std::uint32_t>(std::clamp<std::int64_t>(length, 1, c.cols)));
  }
  return lengths;
}

void ExpectManyRowsGiveTheBitsOfRowsAlone(DataType type, std::initializer_list<std::int64_t> widths) {
  for (const Operation operation : kBothOperations) {
    std::size_t i = 0;
    for (const std::int64_t cols : widths) {
      RowCase c = CaseOf(type, operation, cols);
      const std::int64_t row_bytes = cols * static_cast<std::int64_t>(SizeOf(type));
      const std::int64_t count = kManyBytes / row_bytes;
      ExpectSameBits(c, kAllValues[i++ % std::size(kAllValues)], {count});
      if (row_bytes % 16 == 0) {
        c.padding = 16 / static_cast<std::int64_t>(SizeOf(type));
      } else {
        c.input_offset = c.output_offset = 3;
      }
      c.lengths = LengthsOf(kDistinctRows, c.cols);
      c.in_place = i % 2 == 0;
      ExpectSameBits(c, Values::kNormal50, {count + 1});
      c.lengths = ChunkLengths(c);
      ExpectSameBits(c, Values::kNormal, {count - 1});
    }
  }
}

TEST_F(RowCountTest, ManyRowsOfFloat32GiveTheBitsOfRowsAlone) {
  ExpectManyRowsGiveTheBitsOfRowsAlone(
      DataType::kFloat32, {781, 12672, 20011, 50257, 55184, 65536, 80003, 100003, 104556, 131101, 132600, 142673});
}

TEST_F(RowCountTest, ManyRowsOfFloat16GiveTheBitsOfRowsAlone) {
  ExpectManyRowsGiveTheBitsOfRowsAlone(
      DataType::kFloat16, {781, 20000, 24981, 32771, 65537, 104556, 131072, 142673, 142680, 185000, 262144, 264600});
}

TEST_F(RowCountTest, ManyRowsOfBFloat16GiveTheBitsOfRowsAlone) {
  ExpectManyRowsGiveTheBitsOfRowsAlone(DataType::kBFloat16, {895, 21507, 30001, 36000, 50257, 88711, 100003, 118003,
                                                             131101, 160003, 170003, 185003, 250001});
}

// So many narrow rows that each has a thread: lanes share fewer of them.
TEST_F(RowCountTest, ManyNarrowRowsGiveTheBitsOfRowsAlone) {
  constexpr std::int64_t kMany = 66'001;
  int i = 0;
  for (const auto& [type, cols, operation] :
       Product(kTypesUpTo32Bits, Ints{12, 20, 23, 24, 28, 31, 36, 40, 44, 47, 52, 55, 60}, kBothOperations)) {
    RowCase c = CaseOf(type, operation, cols);
    ExpectSameBits(c, kAllValues[i++ % std::size(kAllValues)], {kMany});
    c.lengths = LengthsOf(kDistinctRows, c.cols);
    ExpectSameBits(c, Values::kNormal, {kMany});
  }
}

// Aligned rows of a number of vectors that leaves lanes idle.
TEST_F(RowCountTest, IdleLanesGiveTheBitsOfRowsAlone) {
  for (const auto& [type, cols, operation] : Product(kTypesUpTo32Bits, Ints{24, 40, 48, 56}, kBothOperations)) {
    RowCase c = CaseOf(type, operation, cols);
    const std::int64_t count = kRoundsBytes / (cols * static_cast<std::int64_t>(SizeOf(type)));
    ExpectSameBits(c, Values::kPartialInfinity, {count});
    c.lengths = LengthsOf(kDistinctRows, cols);
    c.in_place = cols == 48;
    ExpectSameBits(c, Values::kNormal50, {count + 5});
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
