#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cpu/softmax_cpu.h"
#include "kernels/reference.h"
#include "tests/kernels/cpu_targets.h"
#include "tests/support/kernel_cases.h"

// Softmax of 16 bits where its promise is hardest to keep: the exact value lies just farther from a tie than what the
// arithmetic may be off, so only the correctly rounded number will do.
namespace softmax::kernels {
namespace {

using testing::Random;

constexpr int kCols = 9;
constexpr double kMargin = 1.25;  // the largest distance from a tie, in bounds

// What decides the first element's share. The other columns are adjusted to it.
struct Start {
  float max;
  float first;
  double scale;

  double Distance() const { return (static_cast<double>(max) - static_cast<double>(first)) * scale; }
};

double Bound(double share, double distance) {
  return (6 + 1.5 * distance) * std::ldexp(1.0, std::max(std::ilogb(share), -126) - 23) + 1.2e-38;
}

// The tie below the 16-bit number that follows `share`, which is of the type's normal numbers.
double TieAt(DataType type, double share) {
  const int fraction_bits = type == DataType::kFloat16 ? 10 : 7;
  const double step = std::ldexp(1.0, std::ilogb(share) - fraction_bits);
  return (std::floor(share / step) + 0.5) * step;
}

// A row whose first element's exact share is `share`, as nearly as floats can have it: the largest element a number of
// times and one more that makes up the rest.
std::optional<std::vector<float>> RowWithShare(const Start& start, double share) {
  const double own = std::exp(-start.Distance());
  const double rest = own / share - own;
  const int whole = static_cast<int>(rest - 0.25);
  if (!(rest >= 1.25) || whole > kCols - 2) {
    return std::nullopt;
  }
  std::vector<float> row(kCols, -std::numeric_limits<float>::infinity());
  row[0] = start.first;
  for (int c = 1; c <= whole; ++c) {
    row[static_cast<std::size_t>(c)] = start.max;
  }
  row[kCols - 1] = static_cast<float>(start.max + std::log(rest - whole) / start.scale);
  if (row[kCols - 1] > start.max) {
    return std::nullopt;
  }
  return row;
}

double ShareOfFirst(std::span<const float> row, double scale) {
  double sum = 0;
  for (const float x : row) sum += std::exp((static_cast<double>(x) - static_cast<double>(row[0])) * scale);
  return 1 / sum;
}

// Rows on either side of a tie, appended to `rows`; those that floats cannot bring near enough are left out.
void AddRowsAtTie(DataType output, const Start& start, double wanted, std::vector<float>& rows) {
  const double tie = TieAt(output, wanted);
  const double bound = Bound(tie, start.Distance());
  for (const double side : {-1.0, 1.0}) {
    const auto row = RowWithShare(start, tie + side * (1 + kMargin) / 2 * bound);
    if (!row.has_value()) {
      continue;
    }
    const double distance = std::fabs(ShareOfFirst(*row, start.scale) - tie) / bound;
    if (distance > 1.001 && distance < kMargin) {
      rows.insert(rows.end(), row->begin(), row->end());
    }
  }
}

void ExpectCorrectRounding(DataType output, double scale, const std::vector<float>& rows) {
  std::vector<std::uint16_t> out(rows.size());
  const auto count = static_cast<std::int64_t>(rows.size()) / kCols;
  const Segment segment{rows.data(), out.data(), nullptr, count, kCols, 1, kCols, kCols, scale, Operation::kSoftmax};
  cpu::Softmax(DataType::kFloat32, output, segment, 0, count);
  const Judgement result = Judge(DataType::kFloat32, output, segment, Bounds::kUsual);
  EXPECT_TRUE(result.ok) << result.message << ", failures: " << result.failures << " in " << count << " rows";
  // The judge knows the mean distance, within whose part of the bound the neighbour would do.
  int wrong = 0;
  for (std::size_t start = 0; start < rows.size(); start += kCols) {
    std::uint16_t nearest = 0;
    StoreElement(output, &nearest, 0, ShareOfFirst({rows.data() + start, kCols}, scale));
    wrong += out[start] != nearest ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0) << "of " << count << " rows";
}

class SoftmaxCpuTiesTest : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(SoftmaxCpuTiesTest, RoundCorrectlyJustBesideThem) {
  testing::OnlyTarget target(GetParam());
  Random random(21);
  for (const DataType output : {DataType::kFloat16, DataType::kBFloat16}) {
    const double farthest = output == DataType::kFloat16 ? 8 : 80;
    for (const double scale : {1.0, 0.7, 0.08838834764831845, 3.0}) {
      std::vector<float> rows;
      for (int i = 0; i < 20000; ++i) {
        const double distance = farthest * random.Uniform() * (i % 2 == 0 ? 1.0 : 0.1);
        const float max = static_cast<float>(random.Normal());
        const Start start{max, static_cast<float>(max - distance / scale), scale};
        AddRowsAtTie(output, start, std::exp(-distance) / (1.5 + 5 * random.Uniform()), rows);
      }
      EXPECT_GT(rows.size(), 5000u * kCols);
      ExpectCorrectRounding(output, scale, rows);
    }
  }
}

// A scale near `scale` whose product with log2(e) is just above a power of two and farthest from the float below it.
double HardestScaleNear(double scale) {
  constexpr double kLog2E = 1.4426950408889634;
  const double power = std::exp2(std::round(std::log2(scale * kLog2E)));
  return power * (1 + 0x1p-20 + 0.49 * 0x1p-23) / kLog2E;
}

// The distance loses half a unit to rounding, and so does the factor, both in the direction that makes the share
// larger.
TEST_P(SoftmaxCpuTiesTest, RoundCorrectlyWhereDistanceAndScaleRoundAlike) {
  testing::OnlyTarget target(GetParam());
  Random random(22);
  for (const double near : {0.1, 0.7, 1.4, 5.0}) {
    const double scale = HardestScaleNear(near);
    std::vector<float> rows;
    for (int i = 0; i < 20000; ++i) {
      const double power = std::exp2(std::floor(std::log2((30 + 40 * random.Uniform()) / scale)));
      const auto first = static_cast<float>(-power * (1 + 0.01 * random.Uniform()));
      const Start start{static_cast<float>(power * 0x1p-24 * 0.98), first, scale};
      // A share just below a power of two, where a unit in the last place is worth least.
      const double largest = std::exp(-start.Distance()) / 1.5;
      AddRowsAtTie(DataType::kBFloat16, start, std::exp2(std::floor(std::log2(largest))) * 0.998, rows);
    }
    EXPECT_GT(rows.size(), 5000u * kCols);
    ExpectCorrectRounding(DataType::kBFloat16, scale, rows);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SoftmaxCpuTiesTest, ::testing::ValuesIn(testing::CpuTargets()),
                         [](const auto& info) { return testing::NameOfCpuTarget(info.param); });

}  // namespace
}  // namespace softmax::kernels
