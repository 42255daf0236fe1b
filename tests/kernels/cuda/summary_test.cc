#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/combinations.h"
#include "tests/kernels/cuda/gpu_memory.h"
#include "tests/support/summary_cases.h"

namespace softmax::kernels::testing {
namespace {

using softmax::testing::KernelCase;
using softmax::testing::PreparedCase;
using softmax::testing::SummaryAsk;
using softmax::testing::SummaryMemory;

// A tensor with what is asked of it, on the device.
struct Summarized {
  Summarized(const KernelCase& c, const SummaryAsk& a)
      : test(c),
        prepared(softmax::testing::Prepare(c)),
        memory(c, a),
        input(softmax::testing::UsableBytes(prepared.input), Place::kDevice),
        output(softmax::testing::UsableBytes(prepared.output), Place::kDevice),
        block(memory.block().size(), Place::kDevice),
        lengths(prepared.lengths.size() * 4, Place::kDevice) {
    const auto bytes = [](const void* data, std::size_t size) {
      const auto* const begin = static_cast<const std::byte*>(data);
      return std::vector<std::byte>(begin, begin + size);
    };
    input.Write(bytes(softmax::testing::Base(prepared.input), input.size()));
    block.Write(memory.block());
    lengths.Write(bytes(prepared.lengths.data(), lengths.size()));
    Segment rows = softmax::testing::SegmentOf(prepared);
    rows.input = input.data() + prepared.input_offset;
    rows.output = output.data() + prepared.output_offset;
    if (rows.lengths != nullptr) rows.lengths = reinterpret_cast<const std::uint32_t*>(lengths.data());
    segment = memory.Bind(rows, block.data());
  }

  // What is wrong with the answer, after the launch.
  std::string Fault() {
    std::vector<std::byte> whole = output.Read();
    Segment rows = softmax::testing::SegmentOf(prepared);
    rows.output = whole.data() + prepared.output_offset;
    memory.block() = block.Read();
    return softmax::testing::FaultOf(test, memory.Bind(rows, memory.block().data()));
  }

  KernelCase test;
  PreparedCase prepared;
  SummaryMemory memory;
  Memory input, output, block, lengths;
  SummarySegment segment;
};

class SummaryTest : public GpuTest {
 protected:
  // One launch of all summaries, and one of the whole answers beside it.
  void Run(const std::vector<Summarized*>& all) {
    const DataType in = all[0]->test.input_type;
    const DataType out = all[0]->test.output_type;
    std::vector<SummarySegment> segments;
    for (const Summarized* one : all) segments.push_back(one->segment);
    const auto count = static_cast<std::int64_t>(segments.size());
    const std::size_t bytes = SummaryWorkspaceBytes(in, segments.data(), count);
    Memory workspace(bytes, Place::kDevice);
    ASSERT_CUDA(cudaMemset(workspace.data(), 0, bytes));
    Memory scratch(SummaryScratchBytes(count), Place::kMapped);
    for (int turn = 0; turn < 2; ++turn) {  // the second finds the workspace as the first has left it
      ASSERT_CUDA(LaunchSummaries(in, out, segments.data(), count, scratch.data(), scratch.size(), workspace.data(),
                                  bytes, Completion{}, nullptr));
    }
    for (const SummarySegment& segment : segments) ASSERT_CUDA(LaunchSoftmax(in, out, segment.rows, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    for (Summarized* one : all) ASSERT_EQ("", one->Fault());
  }
};

TEST_F(SummaryTest, HasExactIndicesAndTheWholeAnswersBits) {
  std::uint64_t n = 0;
  for (KernelCase test : softmax::testing::AllCases()) {
    // Distances beyond the floats that they are computed in have no double for an answer.
    const bool is_beyond = test.values == softmax::testing::Values::kLargest &&
                           test.output_type == DataType::kFloat64 && test.input_type != DataType::kFloat64;
    if (is_beyond) continue;
    test.in_place = false;
    Summarized one(test, softmax::testing::AskOf(++n));
    Run({&one});
    if (HasFatalFailure()) return;
  }
}

// Rows of many chunks: in groups, in several parts, and with more of the top than chunks.
TEST_F(SummaryTest, WideRows) {
  using softmax::testing::Values;
  std::uint64_t n = 0;
  for (const auto& [type, cols, values, k] :
       Product(softmax::testing::AllTypes(), Ints{2049, 5000, 32000, 128256, 128257, 262144, 300001, 1200003},
               std::array{Values::kNormal, Values::kConstant, Values::kPartialInfinity, Values::kNan},
               std::array{1, 20, 1024})) {
    KernelCase test{type, type, n % 2 == 0 ? Operation::kSoftmax : Operation::kLogSoftmax, values};
    test.lengths = n % 3 == 0 ? softmax::testing::Lengths::kMixed : softmax::testing::Lengths::kNone;
    test.cols = cols;
    test.outer = cols > 200000 ? 1 : 3;
    test.inner = n % 7 == 0 && cols < 200000 ? 3 : 1;
    test.offset = n % 5;
    test.seed = ++n;
    Summarized one(test, {k, 5, true, n % 2 == 0});
    Run({&one});
    if (HasFatalFailure()) return;
  }
}

// Rows of a warp, of half of one and of less; as many of the largest as fit there and more, and very many equal ones.
TEST_F(SummaryTest, SmallRows) {
  using softmax::testing::Values;
  std::uint64_t n = 0;
  for (const auto& [type, cols, values, k] :
       Product(softmax::testing::AllTypes(), Ints{17, 64, 130, 192, 256, 500, 1000},
               std::array{Values::kNormal, Values::kConstant, Values::kPartialInfinity, Values::kFullInfinity},
               std::array{1, 8, 20, 32, 100})) {
    KernelCase test{type, type, n % 2 == 0 ? Operation::kSoftmax : Operation::kLogSoftmax, values};
    test.lengths = n % 3 == 0 ? softmax::testing::Lengths::kMixed : softmax::testing::Lengths::kNone;
    test.cols = cols;
    test.outer = 151;
    test.offset = n % 5;
    test.seed = ++n;
    Summarized one(test, {k, n % 4 == 0 ? 3 : 0, n % 2 == 0, n % 5 == 0});
    Run({&one});
    if (HasFatalFailure()) return;
  }
}

// Company changes nothing: many different rows in one launch, few enough for its parameters and more.
TEST_F(SummaryTest, RaggedSegmentsInOneLaunch) {
  for (const DataType type : softmax::testing::AllTypes()) {
    for (const std::size_t count : {3u, 16u, 17u, 200u}) {
      std::vector<std::unique_ptr<Summarized>> owned;
      std::vector<Summarized*> all;
      softmax::testing::Random random(count);
      for (std::size_t i = 0; i < count; ++i) {
        KernelCase test{type, DataType::kFloat32, i % 2 == 0 ? Operation::kSoftmax : Operation::kLogSoftmax};
        softmax::testing::Vary(test, i);
        test.in_place = false;
        test.cols = 1 + random.Below(i % 10 == 0 ? 60000 : i % 3 == 0 ? 4000 : 300);
        test.outer = 1 + random.Below(4);
        owned.push_back(std::make_unique<Summarized>(test, softmax::testing::AskOf(i)));
        all.push_back(owned.back().get());
      }
      Run(all);
      if (HasFatalFailure()) return;
    }
  }
}

// So many rows that each is one part.
TEST_F(SummaryTest, ManyRows) {
  for (const std::int64_t cols : {256, 1000, 1500}) {
    KernelCase test{DataType::kFloat32, DataType::kFloat32};
    test.outer = 20000;
    test.cols = cols;
    Summarized one(test, {5, 1, true, true});
    Run({&one});
    if (HasFatalFailure()) return;
  }
}

TEST_F(SummaryTest, RefusesWhatIsWrong) {
  KernelCase test{};
  test.cols = 3000;
  Summarized one(test, {5, 2, true, true});
  const std::size_t bytes = SummaryWorkspaceBytes(DataType::kFloat32, &one.segment, 1);
  Memory workspace(bytes, Place::kDevice);
  const auto launch = [&](const SummarySegment& segment, std::size_t workspace_bytes) {
    return LaunchSummaries(DataType::kFloat32, DataType::kFloat32, &segment, 1, nullptr, 0, workspace.data(),
                           workspace_bytes, Completion{}, nullptr);
  };
  EXPECT_EQ(cudaErrorInvalidValue, launch(one.segment, bytes - 1));
  const auto with = [&](auto change) {
    SummarySegment segment = one.segment;
    change(&segment);
    return launch(segment, bytes);
  };
  EXPECT_EQ(cudaErrorInvalidValue, with([](SummarySegment* s) { s->top_k = kMaxTopK + 1; }));
  EXPECT_EQ(cudaErrorInvalidValue, with([](SummarySegment* s) { s->top_k = -1; }));
  EXPECT_EQ(cudaErrorInvalidValue, with([](SummarySegment* s) { s->top_indices = nullptr; }));
  EXPECT_EQ(cudaErrorInvalidValue, with([](SummarySegment* s) { s->indices = nullptr; }));
  EXPECT_EQ(cudaErrorInvalidValue, with([](SummarySegment* s) { s->maximum = nullptr; }));
  EXPECT_EQ(cudaErrorInvalidValue, with([](SummarySegment* s) { s->rows.scale = 0; }));
  EXPECT_EQ(cudaErrorInvalidValue, with([](SummarySegment* s) { s->rows.input = nullptr; }));
}

}  // namespace
}  // namespace softmax::kernels::testing
