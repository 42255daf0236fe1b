#include <array>
#include <atomic>
#include <functional>
#include <memory>

#include "tests/kernels/cuda/row_case.h"

// Launches of one stream that each read what the one before wrote, and write where the one before that still read.
// Their blocks may take their places early (kernels/cuda/blocks/ahead.cuh), their accesses may not.
namespace softmax::kernels::testing {
namespace {

constexpr std::int64_t kElements = 1 << 23;
constexpr int kRounds = 12;
constexpr std::size_t kScratchBytes = 96 * 1024;  // of one batch

struct ChainShape {
  std::int64_t rows;
  std::int64_t cols;
};
// One row over teams of blocks, clusters, blocks, warps, lanes, threads; few rows and many, with and without vectors.
constexpr std::array<ChainShape, 22> kShapes = {
    {{2, 4194304}, {32, 262144}, {1, 131072},  {8, 131072}, {3, 131101},  {400, 20480}, {300, 20011}, {1, 8192},
     {128, 8192},  {1024, 8192}, {1, 1024},    {60, 1024},  {500, 1025},  {8192, 1024}, {4096, 256},  {264, 1000},
     {1823, 575},  {64, 256},    {65536, 128}, {90000, 93}, {262144, 32}, {2000000, 3}}};
// Of up to this number of rows every other launch is a batch of them, half of them as segments of their own.
constexpr std::int64_t kBatchRows = 500;

class ChainTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    for (auto& buffer : buffers_) buffer = std::make_unique<Memory>(kElements * sizeof(float), Place::kDevice);
    workspace_ = std::make_unique<Memory>(kSoftmaxWorkspaceBytes, Place::kDevice);
    workspace_->Write(std::vector<std::byte>(kSoftmaxWorkspaceBytes));
    scratch_ = std::make_unique<Memory>(kRounds * kShapes.size() * kScratchBytes, Place::kMapped);
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  void Fill() {
    static const std::vector<std::byte> values = MakeValues(Values::kNormal, DataType::kFloat32, kElements, 23);
    for (const auto& buffer : buffers_) buffer->Write(values);
  }
  // A chain of log-softmax, at times in place, which keeps the values spread; now and then softmax of what is there.
  void LaunchChain(int rounds, const std::function<void()>& after_each) {
    std::size_t at = 0;
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < kShapes.size(); ++i) {
        const ChainShape& shape = kShapes[(i * 7 + static_cast<std::size_t>(round)) % kShapes.size()];
        const bool is_aside = (i + static_cast<std::size_t>(round)) % 3 == 2;
        const std::size_t to = is_aside ? 2 : i % 5 == 0 ? at : 1 - at;
        Segment segment;
        segment.input = buffers_[at]->data();
        segment.output = buffers_[to]->data();
        segment.outer = shape.rows;
        segment.cols = segment.input_stride = segment.output_stride = shape.cols;
        segment.operation = is_aside ? Operation::kSoftmax : Operation::kLogSoftmax;
        if (shape.rows <= kBatchRows && shape.cols < 131072 && (i + static_cast<std::size_t>(round)) % 2 == 0) {
          LaunchBatch(segment, static_cast<std::size_t>(round) * kShapes.size() + i);
        } else {
          ASSERT_CUDA(LaunchSoftmax(DataType::kFloat32, DataType::kFloat32, segment, stream_,
                                    reinterpret_cast<std::uint32_t*>(workspace_->data())));
        }
        if (!is_aside) at = to;
        after_each();
      }
    }
  }
  // The first rows as one segment, the others as one each; of every third launch all, which have a table of their own.
  void LaunchBatch(const Segment& all, std::size_t launch) {
    std::vector<Segment> segments;
    const std::int64_t together = launch % 3 == 0 ? 0 : all.outer / 2;
    for (std::int64_t row = 0; row < all.outer; row += segments.back().outer) {
      Segment part = all;
      part.outer = row < together ? together : 1;
      part.input = static_cast<const float*>(all.input) + row * all.cols;
      part.output = static_cast<float*>(all.output) + row * all.cols;
      segments.push_back(part);
    }
    const auto count = static_cast<std::int64_t>(segments.size());
    ASSERT_LE(SoftmaxBatchScratchBytes(segments.data(), count), kScratchBytes);
    ASSERT_CUDA(LaunchSoftmaxBatch(DataType::kFloat32, DataType::kFloat32, segments.data(), count,
                                   scratch_->data() + launch * kScratchBytes, kScratchBytes, Completion(), stream_));
  }
  std::vector<std::byte> Results() const {
    std::vector<std::byte> all;
    for (const auto& buffer : buffers_) {
      const std::vector<std::byte> more = buffer->Read();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  std::array<std::unique_ptr<Memory>, 3> buffers_;
  std::unique_ptr<Memory> workspace_;
  std::unique_ptr<Memory> scratch_;  // each launch has its own
  cudaStream_t stream_ = nullptr;
};

TEST_F(ChainTest, LaunchesSeeWhatTheOneBeforeWrote) {
  Fill();
  LaunchChain(kRounds, [this] { ASSERT_CUDA(cudaStreamSynchronize(stream_)); });
  const std::vector<std::byte> expected = Results();
  for (int repeat = 0; repeat < 3; ++repeat) {
    Fill();
    LaunchChain(kRounds, [] {});
    ASSERT_CUDA(cudaStreamSynchronize(stream_));
    ASSERT_TRUE(expected == Results()) << "repeat " << repeat;
  }
}

TEST_F(ChainTest, AlsoInAGraph) {
  Fill();
  LaunchChain(kRounds, [this] { ASSERT_CUDA(cudaStreamSynchronize(stream_)); });
  const std::vector<std::byte> expected = Results();
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  LaunchChain(kRounds, [] {});
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t executable = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  for (int repeat = 0; repeat < 3; ++repeat) {
    Fill();
    ASSERT_CUDA(cudaGraphLaunch(executable, stream_));
    ASSERT_CUDA(cudaStreamSynchronize(stream_));
    ASSERT_TRUE(expected == Results()) << "repeat " << repeat;
  }
  ASSERT_CUDA(cudaGraphExecDestroy(executable));
  ASSERT_CUDA(cudaGraphDestroy(graph));
}

// Blocks that exchange statistics through the workspace know a launch's by a number, which starts again some time.
TEST_F(ChainTest, TheWorkspaceStartsAgain) {
  constexpr std::uint32_t kNearlyLast = 0x7ffffffd;
  Segment segment;
  segment.outer = 1;
  segment.cols = 131072;
  segment.input = buffers_[0]->data();
  segment.output = buffers_[1]->data();
  const auto launch = [&] {
    buffers_[1]->Write(std::vector<std::byte>(static_cast<std::size_t>(segment.cols) * sizeof(float)));
    ASSERT_CUDA(LaunchSoftmax(DataType::kFloat32, DataType::kFloat32, segment, stream_,
                              reinterpret_cast<std::uint32_t*>(workspace_->data())));
    ASSERT_CUDA(cudaStreamSynchronize(stream_));
  };
  Fill();
  launch();
  const std::vector<std::byte> expected = buffers_[1]->Read();
  std::vector<std::byte> workspace = workspace_->Read();
  std::memcpy(workspace.data() + kSoftmaxWorkspaceZeroBytes, &kNearlyLast, sizeof(kNearlyLast));
  workspace_->Write(workspace);
  for (int i = 0; i < 6; ++i) {
    launch();
    ASSERT_TRUE(expected == buffers_[1]->Read()) << "launch " << i;
  }
  workspace = workspace_->Read();
  std::uint32_t number = 0;
  std::memcpy(&number, workspace.data() + kSoftmaxWorkspaceZeroBytes, sizeof(number));
  if (number == kNearlyLast) GTEST_SKIP() << "SKIPPED: no row is shared that way on this device";
  EXPECT_LT(number, kNearlyLast) << "a stale number may come again";
}

// The host may write the next batch's table once it has seen the flag, while a later launch still works: the blocks
// that come early then must see it. Of few rows the units are parameters, of many they are in the table.
TEST_F(ChainTest, BatchesSeeTheirOwnTables) {
  struct Batches {
    std::uint32_t launches;
    std::int64_t rows;
    std::int64_t narrowest;
    std::int64_t widest;
  };
  Memory flag(4, Place::kMapped);
  auto* const value = reinterpret_cast<std::uint32_t*>(flag.data());
  const auto run = [&](const Batches& batches, bool wait) {
    Fill();
    flag.Write(std::vector<std::byte>(4));
    for (std::uint32_t launch = 0; launch < batches.launches; ++launch) {
      const std::int64_t rows = batches.rows - launch % 32;  // so that no table is like the one before
      std::vector<Segment> segments(static_cast<std::size_t>(rows));
      for (std::int64_t row = 0; row < rows; ++row) {
        Segment& s = segments[static_cast<std::size_t>(row)];
        const std::int64_t mixed = launch * 7919 + row * 104729;
        const std::int64_t skew = row % 4;  // of input and output alike
        s.outer = 1;
        s.cols = s.input_stride = s.output_stride =
            batches.narrowest + mixed % (batches.widest - 3 - batches.narrowest);
        s.input = reinterpret_cast<const float*>(buffers_[0]->data()) +
                  mixed * 31 % (kElements - batches.widest) / 4 * 4 + skew;
        s.output =
            reinterpret_cast<float*>(buffers_[1]->data()) + (launch * batches.rows + row) * batches.widest + skew;
      }
      ASSERT_LE(SoftmaxBatchScratchBytes(segments.data(), rows), kScratchBytes);
      const Completion completion{value, launch + 1, reinterpret_cast<std::uint32_t*>(workspace_->data())};
      ASSERT_CUDA(LaunchSoftmaxBatch(DataType::kFloat32, DataType::kFloat32, segments.data(), rows, scratch_->data(),
                                     kScratchBytes, completion, stream_));
      Segment later;
      later.input = buffers_[0]->data();
      later.output = buffers_[2]->data();
      later.outer = 2000;
      later.cols = later.input_stride = later.output_stride = 4000;
      ASSERT_CUDA(LaunchSoftmax(DataType::kFloat32, DataType::kFloat32, later, stream_, completion.workspace));
      if (wait) {
        ASSERT_CUDA(cudaStreamSynchronize(stream_));
      }
      while (std::atomic_ref<std::uint32_t>(*value).load(std::memory_order_acquire) != launch + 1) {
        const cudaError_t error = cudaStreamQuery(stream_);
        ASSERT_TRUE(error == cudaSuccess || error == cudaErrorNotReady) << cudaGetErrorString(error);
      }
    }
    ASSERT_CUDA(cudaStreamSynchronize(stream_));
  };
  for (const Batches& batches : {Batches{400, 100, 1, 200}, Batches{46, 700, 129, 256}}) {
    run(batches, true);
    const std::vector<std::byte> expected = Results();
    run(batches, false);
    ASSERT_TRUE(expected == Results()) << batches.rows << " rows";
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
