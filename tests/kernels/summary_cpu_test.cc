#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/cpu/softmax_cpu.h"
#include "tests/kernels/cpu_targets.h"
#include "tests/support/summary_cases.h"

namespace softmax::kernels {
namespace {

using testing::KernelCase;
using testing::PreparedCase;

// Runs a summary beside the whole answer of the same tensor; what is wrong with it.
std::string FaultOfCpu(KernelCase test, const testing::SummaryAsk& ask) {
  test.in_place = false;
  PreparedCase prepared = testing::Prepare(test);
  const Segment rows = testing::SegmentOf(prepared);
  cpu::Softmax(test.input_type, test.output_type, rows, 0, test.rows());
  testing::SummaryMemory memory(test, ask);
  const SummarySegment summary = memory.Bind(rows, memory.block().data());
  // In two parts, as on two workers.
  const std::int64_t half = test.rows() / 2;
  cpu::Summarize(test.input_type, test.output_type, summary, half, test.rows());
  cpu::Summarize(test.input_type, test.output_type, summary, 0, half);
  return testing::FaultOf(test, summary);
}

class SummaryCpuTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  SummaryCpuTest() : target_(GetParam()) {}
  testing::OnlyTarget target_;
};

// The best instruction set runs every case, the others every fifth.
TEST_P(SummaryCpuTest, HasExactIndicesAndTheWholeAnswersBits) {
  const std::size_t step = GetParam() == testing::CpuTargets().front() ? 1 : 5;
  std::uint64_t n = 0;
  for (const KernelCase& test : testing::AllCases()) {
    ++n;
    if (n % step != 0) continue;
    ASSERT_EQ("", FaultOfCpu(test, testing::AskOf(n)));
  }
  ASSERT_GT(n, 4000u);
}

INSTANTIATE_TEST_SUITE_P(Targets, SummaryCpuTest, ::testing::ValuesIn(testing::CpuTargets()),
                         [](const auto& info) { return testing::NameOfCpuTarget(info.param); });

TEST(SummaryCpuScaleTest, TakesScalesThatFloatsCannotHold) {
  std::uint64_t seed = 0;
  for (const DataType type : testing::AllTypes()) {
    for (const double scale : {1e-300, 1e-31, 1e19, 1e200}) {
      for (const testing::Values values :
           {testing::Values::kNormal, testing::Values::kNan, testing::Values::kPartialInfinity}) {
        KernelCase test{type, type, Operation::kSoftmax, values, testing::Lengths::kMixed};
        test.outer = 5;
        test.cols = 37;
        test.scale = scale;
        test.seed = ++seed;
        test.inner = seed % 2 == 0 ? 1 : 3;
        test.operation = seed % 3 == 0 ? Operation::kLogSoftmax : Operation::kSoftmax;
        ASSERT_EQ("", FaultOfCpu(test, testing::AskOf(seed)));
      }
    }
  }
}

// Equal elements come by their index, also where more of them are offered than are kept at a time.
TEST(SummaryCpuTiesTest, TheSmallestIndicesOfEqualElementsWin) {
  constexpr std::int64_t kCols = 5000;
  constexpr std::int32_t kTop = 100;
  std::vector<float> in(kCols);
  for (std::int64_t c = 0; c < kCols; ++c) in[static_cast<std::size_t>(c)] = c % 3 == 0 ? -0.0f : 0.0f;
  in[4000] = 1;
  std::vector<float> values(kTop);
  std::vector<std::int32_t> indices(kTop);
  SummarySegment summary;
  summary.rows = {in.data(), nullptr, nullptr, 1, kCols, 1, kCols, kCols, 1.0, Operation::kSoftmax};
  summary.top_k = kTop;
  summary.top_values = values.data();
  summary.top_indices = indices.data();
  cpu::Summarize(DataType::kFloat32, DataType::kFloat32, summary, 0, 1);
  EXPECT_EQ(4000, indices[0]);
  for (std::int32_t i = 1; i < kTop; ++i) EXPECT_EQ(i - 1, indices[static_cast<std::size_t>(i)]);
}

// Ascending rows replace what was kept all the time.
TEST(SummaryCpuTiesTest, AscendingRowsAreFound) {
  constexpr std::int64_t kCols = 70000;
  std::vector<double> in(kCols);
  for (std::int64_t c = 0; c < kCols; ++c) in[static_cast<std::size_t>(c)] = static_cast<double>(c) * 1e-4;
  std::vector<double> values(kMaxTopK);
  std::vector<std::int32_t> indices(kMaxTopK);
  SummarySegment summary;
  summary.rows = {in.data(), nullptr, nullptr, 1, kCols, 1, kCols, kCols, 1.0, Operation::kLogSoftmax};
  summary.top_k = kMaxTopK;
  summary.top_values = values.data();
  summary.top_indices = indices.data();
  cpu::Summarize(DataType::kFloat64, DataType::kFloat64, summary, 0, 1);
  for (std::int32_t i = 0; i < kMaxTopK; ++i) EXPECT_EQ(kCols - 1 - i, indices[static_cast<std::size_t>(i)]);
}

}  // namespace
}  // namespace softmax::kernels
