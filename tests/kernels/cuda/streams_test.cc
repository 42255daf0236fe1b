#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/kernels/cuda/row_case.h"
#include "tests/support/eventually.h"

// Launches of all sizes on many streams at once, those whose blocks wait for each other among them: all end, their
// results are those of a launch alone, and none takes device memory.
namespace softmax::kernels::testing {
namespace {

constexpr int kStreams = 8;
constexpr int kLaunches = 200;  // of each stream
constexpr auto kWatchdog = std::chrono::seconds(120);

struct StreamShape {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t inner = 1;
};
// Teams of blocks launched cooperatively, with and without whole vectors, and over another axis; clusters of all sizes;
// blocks; warps.
constexpr std::array<StreamShape, 11> kShapes = {{{1, 1048576},
                                                  {1, 131072},
                                                  {2, 300001},
                                                  {2, 20000, 48},
                                                  {3, 262144},
                                                  {5, 131101},
                                                  {16, 50257},
                                                  {64, 32768},
                                                  {300, 5003},
                                                  {1823, 781},
                                                  {4096, 33}}};

class StreamsTest : public GpuTest {
 protected:
  struct Buffers {
    explicit Buffers(std::size_t bytes) : output(bytes, Place::kDevice) {}
    Memory output;
    Segment segment;
  };
  struct Lane {
    Lane() : workspace(kSoftmaxWorkspaceBytes, Place::kDevice) {
      EXPECT_EQ(cudaSuccess, cudaMemset(workspace.data(), 0, workspace.size()));
      EXPECT_EQ(cudaSuccess, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;
    ~Lane() { cudaStreamDestroy(stream); }
    cudaError_t Launch(std::size_t shape) {
      return LaunchSoftmax(DataType::kFloat32, DataType::kFloat32, buffers[shape]->segment, stream,
                           reinterpret_cast<std::uint32_t*>(workspace.data()));
    }
    Memory workspace;
    cudaStream_t stream = nullptr;
    std::vector<std::unique_ptr<Buffers>> buffers;  // one for each shape
  };

  void MakeInputs() {
    for (const StreamShape& shape : kShapes) {
      const std::int64_t count = shape.rows * shape.cols * shape.inner;
      inputs_.push_back(std::make_unique<Memory>(count * sizeof(float), Place::kDevice));
      inputs_.back()->Write(MakeValues(Values::kNormal, DataType::kFloat32, count, 7, shape.cols));
    }
  }
  std::unique_ptr<Lane> MakeLane() const {
    auto lane = std::make_unique<Lane>();
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      lane->buffers.push_back(std::make_unique<Buffers>(inputs_[i]->size()));
      Segment& segment = lane->buffers.back()->segment;
      segment.input = inputs_[i]->data();
      segment.output = lane->buffers.back()->output.data();
      segment.outer = kShapes[i].rows;
      segment.cols = kShapes[i].cols;
      segment.inner = kShapes[i].inner;
      segment.input_stride = segment.output_stride = segment.cols * segment.inner;
    }
    return lane;
  }
  // A device that hangs cannot be cleaned up after, so the process ends.
  static void WaitOrDie(const std::vector<std::unique_ptr<Lane>>& lanes) {
    for (const auto& lane : lanes) {
      cudaError_t state = cudaErrorNotReady;
      const auto has_ended = [&] { return (state = cudaStreamQuery(lane->stream)) != cudaErrorNotReady; };
      if (!softmax::testing::Eventually(has_ended, kWatchdog, std::chrono::milliseconds(1))) {
        std::fprintf(stderr, "launches did not end: they wait for each other\n");
        std::_Exit(1);
      }
      ASSERT_CUDA(state);
    }
  }

  std::vector<std::unique_ptr<Memory>> inputs_;
};

std::size_t FreeDeviceBytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaSuccess, cudaMemGetInfo(&free, &total));
  return free;
}

TEST_F(StreamsTest, ManyLaunchesAtOnceEndWithTheBitsOfOneAlone) {
  MakeInputs();
  std::vector<std::unique_ptr<Lane>> alone;
  alone.push_back(MakeLane());
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < kStreams; ++i) lanes.push_back(MakeLane());
  const std::size_t free = FreeDeviceBytes();
  for (std::size_t i = 0; i < kShapes.size(); ++i) ASSERT_CUDA(alone[0]->Launch(i));
  WaitOrDie(alone);
  for (int i = 0; i < kLaunches; ++i) {
    for (int s = 0; s < kStreams; ++s) ASSERT_CUDA(lanes[s]->Launch(static_cast<std::size_t>(i + s) % kShapes.size()));
  }
  WaitOrDie(lanes);
  EXPECT_EQ(free, FreeDeviceBytes()) << "a launch took device memory";
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const std::vector<std::byte> expected = alone[0]->buffers[i]->output.Read();
    for (const auto& lane : lanes) {
      ASSERT_EQ(expected, lane->buffers[i]->output.Read())
          << kShapes[i].rows << " x " << kShapes[i].cols << " x " << kShapes[i].inner;
    }
  }
}

}  // namespace
}  // namespace softmax::kernels::testing
