// Lanes and homes in the arena on a machine of two made-up NUMA nodes of one core each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/execution/cuda/cuda_executor.h"
#include "server/execution/device_group.h"
#include "tests/server/execution/fake_cuda.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using ::testing::ElementsAre;
namespace fake = softmax::testing::fake_cuda;

constexpr std::size_t kHomeBytes = 64 << 10;

class CudaTopologyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const CoreSet cores = CoresOfThread();
    if (cores.count() != 2) GTEST_SKIP() << "needs two cores";
    fake::Reset(2);
    fake::TakeHostPointers(true);
    first_ = std::to_string(cores._Find_first());
    second_ = std::to_string(cores._Find_next(cores._Find_first()));
  }
  // `second`: the cores near the second device.
  void Make(const std::string& second) {
    AddDevice("0000:c0:00.0", first_);
    AddDevice("0000:c1:00.0", second);
    ExecutorOptions options;
    options.arena_bytes = 1 << 20;
    options.queue_threads = 3;
    options.home_bytes = kHomeBytes;
    options.root = folder_.path("root");
    auto created = CreateCudaExecutor(options);
    ASSERT_TRUE(created.ok()) << created.status();
    executor_ = *std::move(created);
    group_ = std::make_unique<DeviceGroup>(*executor_, DeviceGroup::Options(), nullptr);
  }
  void AddDevice(const std::string& address, const std::string& cores) {
    const std::string device = folder_.path("root/sys/bus/pci/devices/" + address);
    std::filesystem::create_directories(device);
    std::ofstream(device + "/local_cpulist") << cores << "\n";
  }

  const softmax::testing::TempFolder folder_;
  std::string first_, second_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<DeviceGroup> group_;
};

TEST_F(CudaTopologyTest, ALanesHostMemoryIsMadeWhereItsThreadWillPollIt) {
  Make(second_);
  const auto one = group_->CreateLane([] {}), two = group_->CreateLane([] {}), three = group_->CreateLane([] {});
  const std::string any = FormatCores(CoresOfThread());
  // Each has a lane on both devices. The third thread is one more than a core has queues for.
  EXPECT_THAT(fake::CoresOfHostAllocations(), ElementsAre(first_, first_, second_, second_, any, any));
}

TEST_F(CudaTopologyTest, HomesAreTouchedBeforeTheirPagesAreFixed) {
  Make(second_);
  EXPECT_EQ(fake::TouchedBytes(), 2 * kHomeBytes);
}

TEST_F(CudaTopologyTest, OnlyHomesNearADeviceAreTouched) {
  Make(/*second=*/"");
  EXPECT_EQ(fake::TouchedBytes(), kHomeBytes);
}

}  // namespace
}  // namespace softmax::server
