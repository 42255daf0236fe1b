#include <array>
#include <functional>
#include <memory>

#include "tests/kernels/cuda/row_case.h"

// Launches of one stream that each read what the one before wrote, and write where the one before that still read.
// Their blocks may take their places early (kernels/cuda/dependent.cuh), their accesses may not.
namespace softmax::kernels::testing {
namespace {

constexpr std::int64_t kElements = 1 << 23;
constexpr int kRounds = 12;

struct Shape {
  std::int64_t rows;
  std::int64_t cols;
};
// One row over teams of blocks, clusters, blocks, warps, lanes, threads; few rows and many, with and without vectors.
constexpr std::array<Shape, 22> kShapes = {
    {{2, 4194304}, {32, 262144}, {1, 131072},  {8, 131072}, {3, 131101},  {400, 20480}, {300, 20011}, {1, 8192},
     {128, 8192},  {1024, 8192}, {1, 1024},    {60, 1024},  {500, 1025},  {8192, 1024}, {4096, 256},  {264, 1000},
     {1823, 575},  {64, 256},    {65536, 128}, {90000, 93}, {262144, 32}, {2000000, 3}}};

class ChainTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    for (auto& buffer : buffers_) buffer = std::make_unique<Memory>(kElements * sizeof(float), Place::kDevice);
    workspace_ = std::make_unique<Memory>(kSoftmaxWorkspaceBytes, Place::kDevice);
    workspace_->Write(std::vector<std::byte>(kSoftmaxWorkspaceBytes));
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
        const Shape& shape = kShapes[(i * 7 + static_cast<std::size_t>(round)) % kShapes.size()];
        const bool is_aside = (i + static_cast<std::size_t>(round)) % 3 == 2;
        const std::size_t to = is_aside ? 2 : i % 5 == 0 ? at : 1 - at;
        Segment segment;
        segment.input = buffers_[at]->data();
        segment.output = buffers_[to]->data();
        segment.outer = shape.rows;
        segment.cols = segment.input_stride = segment.output_stride = shape.cols;
        segment.operation = is_aside ? Operation::kSoftmax : Operation::kLogSoftmax;
        ASSERT_CUDA(LaunchSoftmax(DataType::kFloat32, DataType::kFloat32, segment, stream_,
                                  reinterpret_cast<std::uint32_t*>(workspace_->data())));
        if (!is_aside) at = to;
        after_each();
      }
    }
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

}  // namespace
}  // namespace softmax::kernels::testing
