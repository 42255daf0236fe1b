#include "tests/support/row_search.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/kernels/cuda/gpu_memory.h"
#include "tests/kernels/cuda/row_case.h"

namespace softmax::kernels::testing {
namespace {

using softmax::testing::RowKind;
using softmax::testing::RowSearch;

void RunOnGpu(const RowKind& kind, const Segment& segment) {
  RowCase c = CaseOf(kind.input_type, kind.operation, segment.cols, segment.outer);
  c.output_type = kind.output_type;
  const auto* input = static_cast<const std::byte*>(segment.input);
  const std::size_t bytes = static_cast<std::size_t>(c.Elements()) * SizeOf(kind.input_type);
  const std::vector<std::byte> output = RunCase(c, {input, input + bytes});
  std::memcpy(segment.output, output.data(), static_cast<std::size_t>(c.Elements()) * SizeOf(kind.output_type));
}

class GpuRowSearchTest : public GpuTest, public ::testing::WithParamInterface<RowKind> {};

TEST_P(GpuRowSearchTest, FindsNoRowThatBreaksThePromise) {
  RowSearch search(GetParam(), RunOnGpu, 1);
  search.Climb(softmax::testing::SearchSeconds());
  std::printf("  %.2f of the usual bound, %.2f of the promised one, the worst of %lld rows\n", search.usual(),
              search.promised(), static_cast<long long>(search.rows()));
  EXPECT_EQ(search.broken(), "");
  EXPECT_GT(search.usual(), 0.01) << "the search does not climb";
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuRowSearchTest, ::testing::ValuesIn(softmax::testing::SearchedKinds()),
                         [](const auto& info) { return info.param.Name(); });

}  // namespace
}  // namespace softmax::kernels::testing
