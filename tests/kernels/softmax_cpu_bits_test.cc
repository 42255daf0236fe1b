#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/softmax_cpu.h"
#include "tests/kernels/cpu_targets.h"
#include "tests/support/kernel_cases.h"

// A row's bits depend on its own elements, length, width, types, operation and scale only.
namespace softmax::kernels {
namespace {

using testing::KernelCase;
using testing::Lengths;
using testing::Random;
using testing::Values;
using Bytes = std::vector<std::byte>;

struct Kind {
  DataType input_type;
  DataType output_type;
  Operation operation;
  double scale;
};

std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds;
  for (const DataType input : testing::AllTypes()) {
    for (const DataType output : testing::AllTypes()) {
      kinds.push_back({input, output, Operation::kSoftmax, 1.0});
      kinds.push_back({input, output, Operation::kLogSoftmax, 0.7});
    }
  }
  return kinds;
}

constexpr std::int64_t kWidths[] = {1, 5, 16, 33, 127, 255, 256, 257, 600, 1031, 4097, 9001};

Bytes RandomRow(DataType type, std::int64_t cols, Random& random) {
  Bytes row(static_cast<std::size_t>(cols) * SizeOf(type));
  for (std::int64_t c = 0; c < cols; ++c) {
    StoreElement(type, row.data(), c, 4 * random.Normal());
  }
  return row;
}

// The row by itself in fresh memory.
Bytes Alone(const Kind& kind, const Bytes& row, std::int64_t cols, const std::uint32_t* length = nullptr) {
  Bytes out(static_cast<std::size_t>(cols) * SizeOf(kind.output_type));
  Segment segment{row.data(), out.data(), length, 1, cols, 1, cols, cols, kind.scale, kind.operation};
  cpu::Softmax(kind.input_type, kind.output_type, segment, 0, 1);
  return out;
}

// The row as row `place` of a [outer, cols, inner] block of random company, shifted by `offset`
// elements, run as `pieces` ranges of rows.
Bytes InCompany(const Kind& kind, const Bytes& row, std::int64_t cols, std::int64_t outer, std::int64_t inner,
                std::int64_t place, std::int64_t offset, std::int64_t pieces, Random& random) {
  const std::size_t in_size = SizeOf(kind.input_type);
  const std::size_t out_size = SizeOf(kind.output_type);
  const std::int64_t gap = offset % 3;
  const std::int64_t stride = cols * inner + gap;
  Bytes in(static_cast<std::size_t>(offset + outer * stride) * in_size);
  Bytes out(static_cast<std::size_t>(offset + outer * stride) * out_size);
  for (std::int64_t i = 0; i < offset + outer * stride; ++i) {
    StoreElement(kind.input_type, in.data(), i, 40 * random.Uniform() - 20);
  }
  const auto at = [&](std::int64_t c) {
    return static_cast<std::size_t>(offset + place / inner * stride + c * inner + place % inner);
  };
  for (std::int64_t c = 0; c < cols; ++c) {
    std::memcpy(&in[at(c) * in_size], &row[static_cast<std::size_t>(c) * in_size], in_size);
  }
  Segment segment{in.data() + static_cast<std::size_t>(offset) * in_size,
                  out.data() + static_cast<std::size_t>(offset) * out_size,
                  nullptr,
                  outer,
                  cols,
                  inner,
                  stride,
                  stride,
                  kind.scale,
                  kind.operation};
  const std::int64_t rows = outer * inner;
  for (std::int64_t p = 0; p < pieces; ++p) {
    cpu::Softmax(kind.input_type, kind.output_type, segment, rows * p / pieces, rows * (p + 1) / pieces);
  }
  Bytes result(static_cast<std::size_t>(cols) * out_size);
  for (std::int64_t c = 0; c < cols; ++c) {
    std::memcpy(&result[static_cast<std::size_t>(c) * out_size], &out[at(c) * out_size], out_size);
  }
  return result;
}

class SoftmaxCpuBitsTest : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(SoftmaxCpuBitsTest, AreTheSameAtEveryAddressAndInAnyCompany) {
  testing::OnlyTarget target(GetParam());
  Random random(7);
  for (const Kind& kind : AllKinds()) {
    for (const std::int64_t cols : kWidths) {
      const Bytes row = RandomRow(kind.input_type, cols, random);
      const Bytes alone = Alone(kind, row, cols);
      for (std::int64_t offset = 0; offset < (cols > 1000 ? 3 : 9); ++offset) {
        const std::int64_t outer = 1 + random.Below(cols > 1000 ? 2 : 5);
        for (const std::int64_t inner : {1, 3, 20}) {
          const std::int64_t place = random.Below(outer * inner);
          const Bytes together = InCompany(kind, row, cols, outer, inner, place, offset, 1 + random.Below(3), random);
          ASSERT_TRUE(alone == together) << testing::NameOf(kind.input_type) << " to "
                                         << testing::NameOf(kind.output_type) << ", columns " << cols << ", offset "
                                         << offset << ", row " << place << " of " << outer << "x" << inner;
        }
      }
    }
  }
}

TEST_P(SoftmaxCpuBitsTest, AreTheSameInTheLongLengthAndWithoutOne) {
  testing::OnlyTarget target(GetParam());
  Random random(8);
  for (const Kind& kind : AllKinds()) {
    for (const std::int64_t cols : kWidths) {
      const Bytes row = RandomRow(kind.input_type, cols, random);
      const auto all = static_cast<std::uint32_t>(cols);
      ASSERT_TRUE(Alone(kind, row, cols) == Alone(kind, row, cols, &all)) << cols;
    }
  }
}

TEST_P(SoftmaxCpuBitsTest, OfAShortenedRowIgnoreWhatLiesBeyond) {
  testing::OnlyTarget target(GetParam());
  Random random(9);
  for (const Kind& kind : AllKinds()) {
    for (const std::int64_t cols : kWidths) {
      Bytes row = RandomRow(kind.input_type, cols, random);
      const auto length = static_cast<std::uint32_t>(1 + random.Below(cols));
      const Bytes before = Alone(kind, row, cols, &length);
      for (std::int64_t c = length; c < cols; ++c) {
        StoreElement(kind.input_type, row.data(), c, 1e4 * random.Normal());
      }
      ASSERT_TRUE(before == Alone(kind, row, cols, &length)) << cols << " length " << length;
    }
  }
}

TEST_P(SoftmaxCpuBitsTest, InPlaceAreThoseOfTwoBuffers) {
  testing::OnlyTarget target(GetParam());
  Random random(10);
  for (const Kind& kind : AllKinds()) {
    if (SizeOf(kind.input_type) != SizeOf(kind.output_type)) {
      continue;
    }
    for (const std::int64_t cols : kWidths) {
      Bytes row = RandomRow(kind.input_type, cols, random);
      const Bytes apart = Alone(kind, row, cols);
      Segment segment{row.data(), row.data(), nullptr, 1, cols, 1, cols, cols, kind.scale, kind.operation};
      cpu::Softmax(kind.input_type, kind.output_type, segment, 0, 1);
      ASSERT_TRUE(apart == row) << cols;
    }
  }
}

// Outputs beyond the caches are written another way. Only the first rows of the tensor exist, as no
// other is run.
TEST_P(SoftmaxCpuBitsTest, OfHugeTensorsAreThoseOfSmallOnes) {
  testing::OnlyTarget target(GetParam());
  constexpr std::int64_t kRows = 3;
  constexpr std::size_t kSpare = 64;
  Random random(12);
  for (const Kind& kind : AllKinds()) {
    const std::size_t in_size = SizeOf(kind.input_type);
    const std::size_t out_size = SizeOf(kind.output_type);
    for (const std::int64_t cols : {40, 1031, 4097, 70001}) {
      for (std::size_t offset = 0; offset < (cols > 10000 ? 2 : 9); ++offset) {
        const Bytes in = RandomRow(kind.input_type, kRows * cols, random);
        const auto bytes = static_cast<std::size_t>(kRows * cols) * out_size;
        Bytes out(offset * out_size + bytes + kSpare, std::byte{0xa5});
        std::byte* first = out.data() + offset * out_size;
        Segment segment{in.data(), first, nullptr, 1 << 24, cols, 1, cols, cols, kind.scale, kind.operation};
        cpu::Softmax(kind.input_type, kind.output_type, segment, 0, kRows);
        for (std::int64_t row = 0; row < kRows; ++row) {
          const std::byte* from = in.data() + static_cast<std::size_t>(row * cols) * in_size;
          const Bytes alone = Alone(kind, Bytes(from, from + static_cast<std::size_t>(cols) * in_size), cols);
          const std::byte* got = first + static_cast<std::size_t>(row * cols) * out_size;
          ASSERT_EQ(0, std::memcmp(alone.data(), got, alone.size()))
              << testing::NameOf(kind.input_type) << " to " << testing::NameOf(kind.output_type) << ", columns " << cols
              << ", offset " << offset << ", row " << row;
        }
        ASSERT_TRUE(
            std::all_of(first + bytes, first + bytes + kSpare, [](std::byte b) { return b == std::byte{0xa5}; }));
      }
    }
  }
}

// A row of a block: mostly random numbers, but now and then what makes the whole row, and none other, something else.
Bytes RowOfBlock(DataType type, std::int64_t cols, std::int64_t row, Random& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kSpecial[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  Bytes bytes = RandomRow(type, cols, random);
  if (row % 7 == 3) {
    StoreElement(type, bytes.data(), random.Below(cols), kSpecial[random.Below(3)]);
  }
  return bytes;
}

// Runs `rows` rows as the first ones of a tensor of `outer` and expects of each the bits that it has alone.
void ExpectBlockLikeAlone(const Kind& kind, std::int64_t cols, std::int64_t rows, std::int64_t outer, bool has_lengths,
                          Random& random) {
  const std::size_t in_bytes = static_cast<std::size_t>(cols) * SizeOf(kind.input_type);
  const std::size_t out_bytes = static_cast<std::size_t>(cols) * SizeOf(kind.output_type);
  Bytes in;
  std::vector<std::uint32_t> lengths;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Bytes one = RowOfBlock(kind.input_type, cols, row, random);
    in.insert(in.end(), one.begin(), one.end());
    lengths.push_back(static_cast<std::uint32_t>(row % 3 == 0 ? cols : random.Below(cols + 1)));
  }
  Bytes out(static_cast<std::size_t>(rows) * out_bytes + 64);
  std::byte* first = out.data() + (64 - reinterpret_cast<std::uintptr_t>(out.data()) % 64) % 64;
  Segment segment{in.data(), first, nullptr, outer, cols, 1, cols, cols, kind.scale, kind.operation};
  segment.lengths = has_lengths ? lengths.data() : nullptr;
  cpu::Softmax(kind.input_type, kind.output_type, segment, 0, rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = in.begin() + row * static_cast<std::ptrdiff_t>(in_bytes);
    const Bytes one(begin, begin + static_cast<std::ptrdiff_t>(in_bytes));
    const Bytes alone = Alone(kind, one, cols, has_lengths ? &lengths[static_cast<std::size_t>(row)] : nullptr);
    ASSERT_EQ(0, std::memcmp(alone.data(), first + static_cast<std::size_t>(row) * out_bytes, out_bytes))
        << testing::NameOf(kind.input_type) << " to " << testing::NameOf(kind.output_type) << ", columns " << cols
        << ", row " << row << " of " << rows << ", tensor of " << outer;
  }
}

// Many short rows are reduced side by side, by other code where they are whole vectors and where they are many.
TEST_P(SoftmaxCpuBitsTest, OfShortRowsInBlocksAreThoseOfRowsAlone) {
  testing::OnlyTarget target(GetParam());
  Random random(14);
  for (const Kind& kind : AllKinds()) {
    for (const std::int64_t cols : {1, 4, 7, 8, 16, 32, 50, 64, 100, 128, 140, 256, 257}) {
      for (const std::int64_t rows : {2, 13, 40}) {
        for (const std::int64_t outer : {rows, std::int64_t{1} << 24}) {
          ASSERT_NO_FATAL_FAILURE(ExpectBlockLikeAlone(kind, cols, rows, outer, false, random));
        }
        ASSERT_NO_FATAL_FAILURE(ExpectBlockLikeAlone(kind, cols, rows, rows, true, random));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SoftmaxCpuBitsTest, ::testing::ValuesIn(testing::CpuTargets()),
                         [](const auto& info) { return testing::NameOfCpuTarget(info.param); });

TEST(SoftmaxCpuTargetsTest, WithFusedMultiplyAddAgreeBitForBit) {
  const auto targets = testing::CpuTargets();
  const auto has = [&](std::int64_t target) { return std::count(targets.begin(), targets.end(), target) != 0; };
  if (!has(HWY_AVX3) || !has(HWY_AVX2)) {
    GTEST_SKIP() << "needs AVX-512 and AVX2";
  }
  Random random(11);
  for (const Kind& kind : AllKinds()) {
    for (const std::int64_t cols : kWidths) {
      for (const std::int64_t inner : {1, 5}) {
        const Bytes row = RandomRow(kind.input_type, cols * inner, random);
        Bytes results[2];
        for (int i = 0; i < 2; ++i) {
          testing::OnlyTarget target(i == 0 ? HWY_AVX3 : HWY_AVX2);
          results[i].resize(static_cast<std::size_t>(cols * inner) * SizeOf(kind.output_type));
          Segment segment{row.data(), results[i].data(), nullptr,      1,          cols,
                          inner,      cols * inner,      cols * inner, kind.scale, kind.operation};
          cpu::Softmax(kind.input_type, kind.output_type, segment, 0, inner);
        }
        ASSERT_TRUE(results[0] == results[1])
            << testing::NameOf(kind.input_type) << " to " << testing::NameOf(kind.output_type) << ", columns " << cols
            << ", inner " << inner;
      }
    }
  }
}

}  // namespace
}  // namespace softmax::kernels
