#include "tests/kernels/cuda/batch.h"

#include <atomic>

// Batches: ragged segments in one launch give every segment the bits it has alone, in any memory, and the flag says
// when.
namespace softmax::kernels::testing {
namespace {

using BatchTest = GpuTest;

void ExpectSameAsAlone(const std::vector<BatchPart>& parts, const std::vector<std::vector<std::byte>>& outputs) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(RunCase(parts[i].shape, parts[i].input), outputs[i]) << "part " << i << ": " << parts[i].shape.Name();
  }
}

TEST_F(BatchTest, FewSegmentsGiveTheBitsTheyGiveAlone) {
  unsigned seed = 1;
  for (const DataType input : kAllTypes) {
    for (const DataType output : kAllTypes) {
      const auto parts = RandomParts(input, output, 12, 60000, seed++);
      ExpectSameAsAlone(parts, RunBatch(input, output, parts, Place::kDevice));
    }
  }
}

TEST_F(BatchTest, ManySegmentsGiveTheBitsTheyGiveAlone) {
  for (const DataType type : kAllTypes) {
    const auto parts = RandomParts(type, type, 700, 140000, 100 + static_cast<unsigned>(type));
    ExpectSameAsAlone(parts, RunBatch(type, type, parts, Place::kMapped));
  }
}

TEST_F(BatchTest, TenThousandSmallSegmentsGiveTheBitsTheyGiveAlone) {
  const DataType type = DataType::kFloat32;
  const auto parts = RandomParts(type, type, 10000, 200, 5);
  const auto outputs = RunBatch(type, type, parts, Place::kMapped);
  const std::vector<std::size_t> some = {0, 1, 2, 4999, 5000, 9998, 9999};
  for (const std::size_t i : some) {
    EXPECT_EQ(RunCase(parts[i].shape, parts[i].input), outputs[i]) << parts[i].shape.Name();
  }
  // The rest against the reference.
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::byte> output = outputs[i];
    const Segment s = HostSegment(parts[i].shape, parts[i].input.data(), output.data());
    const Judgement judgement = Judge(type, type, s, Bounds::kUsual);
    EXPECT_TRUE(judgement.ok) << parts[i].shape.Name() << ": " << judgement.message;
  }
}

// What the general kernel never sees: contiguous rows of all widths, sorted and cut into units.
TEST_F(BatchTest, ContiguousRowsGiveTheBitsTheyGiveAlone) {
  unsigned seed = 1000;
  for (const DataType type : kAllTypes) {
    const std::int64_t widest = std::int64_t{65536} * 8 / static_cast<std::int64_t>(SizeOf(type));
    for (const bool aligned : {false, true}) {
      for (const int count : {2, 5, 33, 300}) {
        const auto parts = ContiguousParts(type, count, count == 33 ? 2000 : widest, aligned, ++seed);
        ExpectSameAsAlone(parts, RunBatch(type, type, parts, count % 2 == 0 ? Place::kDevice : Place::kMapped));
      }
    }
  }
}

TEST_F(BatchTest, ThousandsOfContiguousRowsGiveTheBitsTheyGiveAlone) {
  for (const DataType type : kAllTypes) {
    const auto parts = ContiguousParts(type, 5000, 6000, false, 2000 + static_cast<unsigned>(type));
    const auto outputs = RunBatch(type, type, parts, Place::kDevice);
    for (std::size_t i = 0; i < parts.size(); i += 41) {
      EXPECT_EQ(RunCase(parts[i].shape, parts[i].input), outputs[i]) << "part " << i << ": " << parts[i].shape.Name();
    }
  }
}

// What has the smaller entries of the table: many segments of one row, without lengths.
TEST_F(BatchTest, RowsOfTheirOwnGiveTheBitsTheyGiveAlone) {
  unsigned seed = 4000;
  for (const DataType type : kAllTypes) {
    const std::int64_t widest = std::int64_t{65536} * 8 / static_cast<std::int64_t>(SizeOf(type));
    for (const std::int64_t most : {std::int64_t{300}, std::int64_t{6000}, widest}) {
      auto parts = ContiguousParts(type, most == widest ? 200 : 3000, most, false, ++seed);
      for (BatchPart& part : parts) {
        part.shape.outer = 1;
        part.shape.lengths.clear();
        part.input.resize(static_cast<std::size_t>(part.shape.cols) * SizeOf(type));
      }
      const auto outputs = RunBatch(type, type, parts, most == 300 ? Place::kMapped : Place::kDevice);
      for (std::size_t i = 0; i < parts.size(); i += 1 + parts.size() / 200) {
        EXPECT_EQ(RunCase(parts[i].shape, parts[i].input), outputs[i]) << "part " << i << ": " << parts[i].shape.Name();
      }
    }
  }
}

// So many large rows of their own that they keep their order, and that blocks take units when they are ready for them:
// twice, as the counters have to be clear again, and without counters.
TEST_F(BatchTest, TensOfThousandsOfChunksGiveTheBitsTheyGiveAlone) {
  constexpr std::int64_t kWidths[] = {3, 40, 300, 450, 1000, 1100, 2500, 5000, 9000, 17000, 33000};
  constexpr std::size_t kBytes = 160 << 20;
  for (const DataType type : kAllTypes) {
    const std::size_t size = SizeOf(type);
    const std::vector<std::byte> values = MakeValues(Values::kNormal, type, 1 << 18, 11);
    std::vector<std::byte> input(kBytes);
    for (std::size_t at = 0; at < kBytes; at += values.size()) std::copy(values.begin(), values.end(), &input[at]);
    Memory in(kBytes, Place::kDevice);
    Memory out(kBytes, Place::kDevice);
    Memory workspace(kSoftmaxWorkspaceBytes, Place::kDevice);
    in.Write(input);
    workspace.Write(std::vector<std::byte>(kSoftmaxWorkspaceBytes));
    std::vector<Segment> segments;
    std::size_t at = 0;
    for (std::int64_t row = 0;; ++row) {
      Segment s;
      s.outer = 1;
      s.cols = s.input_stride = s.output_stride = kWidths[row * 7919 % 11] + row % 61;
      s.operation = row % 3 == 0 ? Operation::kLogSoftmax : Operation::kSoftmax;
      s.input = in.data() + at;
      s.output = out.data() + at;
      at += static_cast<std::size_t>(s.cols) * size;
      if (at > kBytes) break;
      segments.push_back(s);
    }
    const auto run = [&](auto launch) {
      out.Write(std::vector<std::byte>(kBytes));
      launch();
      EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
      return out.Read();
    };
    const auto alone = run([&] {
      for (const Segment& s : segments) ASSERT_CUDA(LaunchSoftmax(type, type, s, nullptr));
    });
    const auto count = static_cast<std::int64_t>(segments.size());
    Memory scratch(SoftmaxBatchScratchBytes(segments.data(), count), Place::kMapped);
    auto* const words = reinterpret_cast<std::uint32_t*>(workspace.data());
    for (std::uint32_t* const used : {words, words, static_cast<std::uint32_t*>(nullptr)}) {
      EXPECT_TRUE(alone == run([&] {
                    ASSERT_CUDA(LaunchSoftmaxBatch(type, type, segments.data(), count, scratch.data(), scratch.size(),
                                                   Completion{nullptr, 0, used}, nullptr));
                  }))
          << "type " << static_cast<int>(type) << (used == nullptr ? " without a workspace" : "");
    }
  }
}

// More rows than the parameters have units for, in few segments.
TEST_F(BatchTest, FewSegmentsOfManyRowsGiveTheBitsTheyGiveAlone) {
  for (const DataType type : kAllTypes) {
    auto parts = ContiguousParts(type, 3, 10, false, 3000 + static_cast<unsigned>(type));
    const std::int64_t shapes[][2] = {{3000, 1025}, {20000, 17}, {1500, 777}};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      RowCase& c = parts[i].shape;
      c.outer = shapes[i][0];
      c.cols = shapes[i][1];
      c.lengths.clear();
      parts[i].input = MakeValues(Values::kNormal, type, c.Elements(), 7, c.cols);
    }
    ExpectSameAsAlone(parts, RunBatch(type, type, parts, Place::kDevice));
  }
}

TEST_F(BatchTest, MappedAndDeviceMemoryGiveTheSameBits) {
  for (const DataType type : kAllTypes) {
    const auto parts = RandomParts(type, type, 30, 300000, 50 + static_cast<unsigned>(type));
    EXPECT_EQ(RunBatch(type, type, parts, Place::kDevice), RunBatch(type, type, parts, Place::kMapped));
  }
}

// Much of it, which few blocks run: all kinds of rows in one launch, and each alone.
TEST_F(BatchTest, FewBlocksGiveTheSameBits) {
  struct Shape {
    std::int64_t outer;
    std::int64_t cols;
  };
  for (const DataType type : kAllTypes) {
    std::vector<BatchPart> parts;
    std::vector<std::vector<std::byte>> alone;
    for (const Shape& shape : {Shape{9000, 30}, Shape{3000, 100}, Shape{700, 1000}, Shape{300, 1024}, Shape{200, 1031},
                               Shape{90, 4000}, Shape{70, 5003}, Shape{20, 50257}, Shape{3, 131072}}) {
      BatchPart part;
      part.shape.input_type = part.shape.output_type = type;
      part.shape.outer = shape.outer;
      part.shape.cols = shape.cols;
      part.input = MakeValues(Values::kNormal, type, part.shape.Elements(), static_cast<unsigned>(shape.cols));
      parts.push_back(part);
      alone.push_back(RunBatch(type, type, {part}, Place::kDevice).front());
      EXPECT_EQ(alone.back(), RunBatch(type, type, {part}, Place::kMapped).front())
          << shape.outer << " x " << shape.cols;
    }
    EXPECT_EQ(alone, RunBatch(type, type, parts, Place::kMapped));
    EXPECT_EQ(RunBatch(type, type, parts, Place::kDevice), RunBatch(type, type, parts, Place::kMapped));
  }
}

TEST_F(BatchTest, AnEmptyBatchStillWritesTheFlag) {
  Memory flag(4, Place::kMapped);
  Memory workspace(kSoftmaxWorkspaceBytes, Place::kDevice);
  flag.Write(std::vector<std::byte>(4));
  workspace.Write(std::vector<std::byte>(kSoftmaxWorkspaceBytes));
  Completion completion;
  completion.flag = reinterpret_cast<std::uint32_t*>(flag.data());
  completion.workspace = reinterpret_cast<std::uint32_t*>(workspace.data());
  completion.value = 42;
  const Segment empty[3];
  for (const std::int64_t count : {0, 3}) {
    *completion.flag = 0;
    ASSERT_CUDA(
        LaunchSoftmaxBatch(DataType::kFloat32, DataType::kFloat32, empty, count, nullptr, 0, completion, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(42u, std::atomic_ref<std::uint32_t>(*completion.flag).load());
  }
}

TEST_F(BatchTest, RunsInAGraph) {
  const std::int64_t rows = 64;
  RowCase c;
  c.outer = rows;
  c.cols = 20000;
  const std::vector<std::byte> input = MakeValues(Values::kNormal, c.input_type, c.Elements(), 3);
  Memory in(input.size(), Place::kDevice);
  Memory out(input.size(), Place::kDevice);
  in.Write(input);
  cudaStream_t stream;
  ASSERT_CUDA(cudaStreamCreate(&stream));
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  ASSERT_CUDA(LaunchSoftmax(c.input_type, c.output_type, HostSegment(c, in.data(), out.data()), stream));
  cudaGraph_t graph;
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(RunCase(c, input), out.Read());
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace softmax::kernels::testing
