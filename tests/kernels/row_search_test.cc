#include "tests/support/row_search.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "kernels/cpu/softmax_cpu.h"
#include "tests/kernels/cpu_targets.h"

namespace softmax::kernels {
namespace {

using softmax::testing::RowKind;
using softmax::testing::RowSearch;

void RunOnCpu(const RowKind& kind, const Segment& segment) {
  cpu::Softmax(kind.input_type, kind.output_type, segment, 0, segment.outer);
}

class RowSearchTest : public ::testing::TestWithParam<RowKind> {};

TEST_P(RowSearchTest, FindsNoRowThatBreaksThePromise) {
  for (const std::int64_t target : testing::CpuTargets()) {
    testing::OnlyTarget only(target);
    RowSearch search(GetParam(), RunOnCpu, 1);
    search.Climb(softmax::testing::SearchSeconds());
    std::printf("  %s: %.2f of the usual bound, %.2f of the promised one, the worst of %lld rows\n",
                testing::NameOfCpuTarget(target).c_str(), search.usual(), search.promised(),
                static_cast<long long>(search.rows()));
    EXPECT_EQ(search.broken(), "");
    EXPECT_GT(search.usual(), 0.01) << "the search does not climb";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RowSearchTest, ::testing::ValuesIn(softmax::testing::SearchedKinds()),
                         [](const auto& info) { return info.param.Name(); });

// Answers with one element that is off by more than the bound: the search has to say so, and which row it was.
TEST(RowSearch, SaysWhatBreaks) {
  const RowKind kind{DataType::kFloat32, DataType::kFloat32, Operation::kSoftmax, 3};
  RowSearch search(
      kind,
      [](const RowKind& each, const Segment& segment) {
        RunOnCpu(each, segment);
        auto* out = static_cast<float*>(segment.output);
        out[0] *= 1 + 40 * 0x1p-23f;
      },
      1);
  search.Climb(1);
  EXPECT_NE(search.broken().find("column 0 of 3"), std::string::npos) << search.broken();
  EXPECT_NE(search.broken().find("; the row is "), std::string::npos) << search.broken();
}

}  // namespace
}  // namespace softmax::kernels
