#include "kernels/cuda/launch.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/kernels/cuda/gpu_memory.h"

// How kernels are launched: handles that a thread keeps are found again, and never used where they are of no use.
namespace softmax::kernels::testing {
namespace {

class LaunchTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    memory_ = std::make_unique<Memory>(sizeof(std::uint32_t), Place::kMapped);
  }

  // Stores the value by a kernel of one thread.
  cudaError_t Store(std::uint32_t value, int threads = 1) {
    auto* flag = reinterpret_cast<std::uint32_t*>(memory_->data());
    void* args[] = {&flag, &value};
    return cuda::Launch(cuda::FlagKernelAddress(), cuda::Grid{1, threads}, args, nullptr);
  }
  void ExpectStores(std::uint32_t value) {
    EXPECT_EQ(cudaSuccess, Store(value));
    EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
    std::uint32_t stored = 0;
    std::memcpy(&stored, memory_->data(), sizeof(stored));
    EXPECT_EQ(value, stored);
  }

  std::unique_ptr<Memory> memory_;  // not made where there is no GPU
};

TEST_F(LaunchTest, AgainAndAgain) {
  for (std::uint32_t value = 1; value < 4; ++value) ExpectStores(value);
}

TEST_F(LaunchTest, FromAThreadThatHasNotUsedTheDevice) {
  std::thread([this] {
    for (std::uint32_t value = 7; value < 10; ++value) ExpectStores(value);
  }).join();
}

TEST_F(LaunchTest, ErrorsComeBackAndDoNotStay) {
  EXPECT_NE(cudaSuccess, Store(1, 4096)) << "no block has so many threads";
  EXPECT_NE(cudaSuccess, Store(1, 4096)) << "with the handle that is kept";
  ExpectStores(2);
  (void)cudaGetLastError();
}

TEST_F(LaunchTest, OnTheDeviceOfTheMoment) {
  int devices = 0;
  ASSERT_CUDA(cudaGetDeviceCount(&devices));
  for (int round = 0; round < 2; ++round) {
    for (int device = 0; device < devices; ++device) {
      ASSERT_CUDA(cudaSetDevice(device));
      ExpectStores(static_cast<std::uint32_t>(100 + 10 * round + device));
    }
  }
  EXPECT_EQ(cudaSuccess, cudaSetDevice(0));
}

// The handles of before are gone with their context. In a process of its own, as other tests keep memory on the device.
TEST_F(LaunchTest, AfterTheDeviceWasReset) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto reset = [this] {
    ExpectStores(1);
    memory_.reset();
    EXPECT_EQ(cudaSuccess, cudaDeviceReset());
    EXPECT_EQ(cudaSuccess, PrepareSoftmaxKernels());
    memory_ = std::make_unique<Memory>(sizeof(std::uint32_t), Place::kMapped);
    ExpectStores(2);
    std::exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(reset(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace softmax::kernels::testing
