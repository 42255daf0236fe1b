#include <cmath>
#include <limits>
#include <memory>

#include "tests/kernels/cuda/gpu_memory.h"

// What is refused, and that nothing is launched then; what is nothing to do.
namespace softmax::kernels::testing {
namespace {

class ArgumentsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    memory_ = std::make_unique<Memory>(8192, Place::kMapped);
    segment_.input = memory_->data();
    segment_.output = memory_->data() + 4096;
    segment_.outer = 4;
    segment_.cols = 8;
    segment_.input_stride = segment_.output_stride = 8;
  }
  cudaError_t Launch(DataType input = DataType::kFloat32, DataType output = DataType::kFloat32) {
    return LaunchSoftmax(input, output, segment_, nullptr);
  }
  void ExpectRefused() {
    EXPECT_EQ(cudaErrorInvalidValue, Launch());
    EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
  }

  std::unique_ptr<Memory> memory_;  // not made where there is no GPU
  Segment segment_;
};

TEST_F(ArgumentsTest, TakesAGoodSegment) {
  EXPECT_EQ(cudaSuccess, Launch());
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
}

TEST_F(ArgumentsTest, RefusesNegativeSizes) {
  segment_.outer = -1;
  ExpectRefused();
  segment_.outer = 4;
  segment_.cols = -1;
  ExpectRefused();
  segment_.cols = 8;
  segment_.inner = -1;
  ExpectRefused();
  segment_.inner = 1;
  segment_.input_stride = -8;
  ExpectRefused();
}

TEST_F(ArgumentsTest, RefusesSizesThatOverflow) {
  segment_.outer = segment_.cols = segment_.inner = std::int64_t{1} << 40;
  ExpectRefused();
}

TEST_F(ArgumentsTest, RefusesNullPointers) {
  segment_.input = nullptr;
  ExpectRefused();
  segment_.input = memory_->data();
  segment_.output = nullptr;
  ExpectRefused();
}

TEST_F(ArgumentsTest, RefusesScalesThatAreNotFiniteAndPositive) {
  for (const double scale : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    segment_.scale = scale;
    ExpectRefused();
  }
}

TEST_F(ArgumentsTest, RefusesUnknownTypes) {
  EXPECT_EQ(cudaErrorInvalidValue, Launch(static_cast<DataType>(0)));
  EXPECT_EQ(cudaErrorInvalidValue, Launch(DataType::kFloat32, static_cast<DataType>(5)));
}

TEST_F(ArgumentsTest, RefusesMisalignedElements) {
  segment_.input = memory_->data() + 2;
  ExpectRefused();
}

TEST_F(ArgumentsTest, RefusesOverlapThatIsNotAliasing) {
  segment_.output = memory_->data() + 4;
  ExpectRefused();
  segment_.output = memory_->data();
  segment_.output_stride = 9;
  ExpectRefused();
  segment_.output_stride = 8;
  EXPECT_EQ(cudaSuccess, Launch());
  EXPECT_EQ(cudaErrorInvalidValue, Launch(DataType::kFloat32, DataType::kFloat16));
  EXPECT_EQ(cudaSuccess, Launch(DataType::kBFloat16, DataType::kFloat16));
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
}

TEST_F(ArgumentsTest, RefusesOutputBlocksThatOverlapEachOther) {
  segment_.output_stride = 7;
  ExpectRefused();
}

TEST_F(ArgumentsTest, ZeroSizesAreNothingToDo) {
  for (std::int64_t* size : {&segment_.outer, &segment_.cols, &segment_.inner}) {
    const std::int64_t before = *size;
    *size = 0;
    EXPECT_EQ(cudaSuccess, Launch());
    *size = before;
  }
  Segment empty;
  EXPECT_EQ(cudaSuccess, LaunchSoftmax(DataType::kFloat32, DataType::kFloat64, empty, nullptr));
}

TEST_F(ArgumentsTest, RefusesTooLittleScratch) {
  const std::vector<Segment> many(1000, segment_);
  const std::size_t bytes = SoftmaxBatchScratchBytes(many.data(), 1000);
  ASSERT_GT(bytes, 0u);
  Memory scratch(bytes, Place::kMapped);
  const auto launch = [&](std::size_t given) {
    return LaunchSoftmaxBatch(DataType::kFloat32, DataType::kFloat32, many.data(), 1000, scratch.data(), given,
                              Completion{}, nullptr);
  };
  EXPECT_EQ(cudaErrorInvalidValue, launch(bytes - 1));
  EXPECT_EQ(cudaSuccess, launch(bytes));
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
}

}  // namespace
}  // namespace softmax::kernels::testing
