#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "tests/kernels/cuda/batch.h"

// Rows of few columns: their kernels take several rows at a time and have forms of their own. Whichever takes a row, it
// gives the same bits, within the bounds.
namespace softmax::kernels::testing {
namespace {

using NarrowRowsTest = GpuTest;

constexpr std::int64_t kNarrowWidths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
constexpr std::int64_t kRows = 1003;  // not a multiple of what a thread takes

// The rows of [outer, cols, inner] as those of [rows, cols] with a pitch, or the other way round.
std::vector<std::byte> Rearrange(const std::vector<std::byte>& from, std::int64_t rows, std::int64_t cols,
                                 std::size_t size, std::int64_t from_row, std::int64_t from_col, std::int64_t to_row,
                                 std::int64_t to_col, std::int64_t to_elements) {
  std::vector<std::byte> to(static_cast<std::size_t>(to_elements) * size);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      std::memcpy(to.data() + static_cast<std::size_t>(r * to_row + c * to_col) * size,
                  from.data() + static_cast<std::size_t>(r * from_row + c * from_col) * size, size);
    }
  }
  return to;
}

// The case's rows with gaps between them.
std::vector<std::byte> RunPadded(RowCase c, std::int64_t padding, const std::vector<std::byte>& input) {
  const std::size_t size = SizeOf(c.input_type);
  c.padding = padding;
  const std::int64_t pitch = c.cols + padding;
  const auto output = RunCase(c, Rearrange(input, c.outer, c.cols, size, c.cols, 1, pitch, 1, c.outer * pitch));
  return Rearrange(output, c.outer, c.cols, size, pitch, 1, c.cols, 1, c.outer * c.cols);
}

// The case's rows side by side.
std::vector<std::byte> RunTransposed(RowCase c, const std::vector<std::byte>& input) {
  const std::size_t size = SizeOf(c.input_type);
  const std::int64_t rows = c.outer;
  c.outer = 1;
  c.inner = rows;
  const auto output = RunCase(c, Rearrange(input, rows, c.cols, size, c.cols, 1, 1, rows, rows * c.cols));
  return Rearrange(output, rows, c.cols, size, 1, rows, c.cols, 1, rows * c.cols);
}

std::vector<std::byte> RunInBatch(const RowCase& c, const std::vector<std::byte>& input) {
  RowCase other = CaseOf(c.input_type, Operation::kSoftmax, 77);
  const auto outputs =
      RunBatch(c.input_type, c.output_type,
               {{other, MakeValues(Values::kNormal, c.input_type, other.cols, 3)}, {c, input}}, Place::kDevice);
  return outputs[1];
}

void ExpectSameBitsEverywhere(const RowCase& dense, Values values) {
  const std::vector<std::byte> input =
      MakeValues(values, dense.input_type, dense.outer * dense.cols, 23, std::max<std::int64_t>(dense.cols, 1));
  const std::vector<std::byte> expected = RunCase(dense, input);
  const auto expect = [&](const char* how, const std::vector<std::byte>& got) {
    EXPECT_TRUE(got == expected) << how << ": " << dense.Name() << " values " << static_cast<int>(values);
  };
  RowCase c = dense;
  c.in_place = true;
  expect("in place", RunCase(c, input));
  c = dense;
  c.input_offset = c.output_offset = 1;
  expect("off the boundaries", RunCase(c, input));
  c.output_offset = 2;
  expect("off them by different distances", RunCase(c, input));
  expect("with gaps", RunPadded(dense, 3, input));
  expect("with gaps, on the boundaries", RunPadded(dense, 16 - dense.cols, input));
  expect("over another axis", RunTransposed(dense, input));
  expect("in a batch", RunInBatch(dense, input));
  c = dense;
  c.outer = dense.outer / 16 * 16;
  const auto end = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(c.outer * c.cols) * SizeOf(c.input_type));
  const std::vector<std::byte> some(input.begin(), input.begin() + end);
  EXPECT_TRUE(RunTransposed(c, some) == std::vector<std::byte>(expected.begin(), expected.begin() + end))
      << "over another axis, on the boundaries: " << c.Name();
  if (!dense.lengths.empty()) return;
  c = dense;
  c.lengths.assign(static_cast<std::size_t>(c.outer), static_cast<std::uint32_t>(c.cols));
  expect("with full lengths", RunCase(c, input));
  expect("with full lengths, over another axis", RunTransposed(c, input));
}

TEST_F(NarrowRowsTest, EveryKernelGivesTheSameBits) {
  for (const auto& [type, operation, cols, values] : Product(kAllTypes, kBothOperations, kNarrowWidths, kAllValues)) {
    ExpectSameBitsEverywhere(CaseOf(type, operation, cols, kRows), values);
  }
}

TEST_F(NarrowRowsTest, EveryKernelGivesTheSameBitsForAnyScaleAndLength) {
  for (const auto& [type, operation, cols] : Product(kAllTypes, kBothOperations, kNarrowWidths)) {
    RowCase c = CaseOf(type, operation, cols, kRows);
    for (const double scale : {0.3, 0.125, 7.0, 1e-30, 1e300}) {
      c.scale = scale;
      ExpectSameBitsEverywhere(c, scale == 0.125 ? Values::kLargest : Values::kNormal50);
    }
    c.scale = 1;
    for (std::int64_t r = 0; r < c.outer; ++r) {
      c.lengths.push_back(static_cast<std::uint32_t>(r * 7919 % (cols + 1)));
    }
    ExpectSameBitsEverywhere(c, Values::kNormal);
    ExpectSameBitsEverywhere(c, Values::kNan);
  }
}

// Many rows, as only some combinations of roundings come near the bounds; also to wider types, which show more.
TEST_F(NarrowRowsTest, ManyRowsAreWithinTheBounds) {
  constexpr std::int64_t kElements = 1 << 16;
  for (const auto& [type, is_wide, operation, cols] :
       Product(std::array{DataType::kFloat16, DataType::kBFloat16}, std::array{false, true}, kBothOperations,
               kNarrowWidths)) {
    const DataType output = is_wide ? DataType::kFloat32 : type;
    RowCase c = CaseOf(type, operation, cols, kElements / cols);
    c.output_type = output;
    double worst = 0;
    for (const double scale : {1.0, 0.7071067811865476}) {
      c.scale = scale;
      const auto input = MakeValues(Values::kNormal, type, c.outer * cols, 29, cols);
      auto results = RunCase(c, input);
      const Judgement judgement = Judge(type, output, HostSegment(c, input.data(), results.data()), Bounds::kUsual);
      EXPECT_TRUE(judgement.ok) << c.Name() << ": " << judgement.failures << " wrong, " << judgement.message;
      worst = std::max(worst, judgement.worst);
    }
    std::printf("  %s %d -> %d, %d columns: worst error / bound %.3f\n",
                operation == Operation::kSoftmax ? "softmax" : "log-softmax", static_cast<int>(type),
                static_cast<int>(output), static_cast<int>(cols), worst);
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
