// What the CUDA backend makes for regions, on pretended devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>

#include "server/execution/cuda/cuda_executor.h"
#include "tests/server/execution/fake_cuda.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;
namespace fake = softmax::testing::fake_cuda;

constexpr std::uint64_t kMiB = 1 << 20;

std::size_t OpenDescriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

class CudaMemory : public ::testing::Test {
 protected:
  void SetUp() override { Make({}); }
  void Make(const Faults& faults) {
    executor_.reset();
    fake::Reset(2);
    plan_ = std::make_unique<FaultPlan>(faults);
    ExecutorOptions options;
    options.arena_bytes = kMiB;
    options.faults = faults.any() ? plan_.get() : nullptr;
    auto created = CreateCudaExecutor(options);
    ASSERT_TRUE(created.ok()) << created.status();
    executor_ = *std::move(created);
    before_ = fake::Allocations();
  }
  void TearDown() override {
    fake::RefuseDriverCall("");
    EXPECT_EQ(fake::Allocations(), before_);
    executor_.reset();
  }

  std::unique_ptr<FaultPlan> plan_;
  std::unique_ptr<Executor> executor_;
  std::size_t before_ = 0;
};

TEST_F(CudaMemory, HostRegionsAreRegisteredWhereDevicesTakeTheHostsAddresses) {
  EXPECT_EQ(executor_->shared_page(Region::kHost), 0u);
  fake::TakeHostPointers(true);
  EXPECT_EQ(executor_->shared_page(Region::kHost), 4096u);
  auto memory = executor_->MakeShared(Region::kHost, kMiB);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(fake::Allocations(), before_ + 1);
  EXPECT_EQ(ftruncate(memory->descriptor, 0), -1);
  close(memory->descriptor);
  memory->free();
  EXPECT_EQ(msync(memory->data, kMiB, MS_ASYNC), -1) << "it is still mapped";
}

TEST_F(CudaMemory, ARegionThatCannotBeRegisteredLeavesNothingBehind) {
  Faults faults;
  faults.calls = {{"cudaHostRegister", 1, cudaErrorMemoryAllocation}};
  Make(faults);
  fake::TakeHostPointers(true);
  const std::size_t descriptors = OpenDescriptors();
  const auto memory = executor_->MakeShared(Region::kHost, kMiB);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.status().message()), HasSubstr("cudaHostRegister: "));
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

TEST_F(CudaMemory, DeviceRegionsAreSharedByADescriptorAndHaveNothingOfOthers) {
  EXPECT_EQ(executor_->shared_page(1), 2 * kMiB);
  const std::size_t descriptors = OpenDescriptors();
  auto memory = executor_->MakeShared(1, 2 * kMiB);
  ASSERT_TRUE(memory.ok()) << memory.status();
  void* const others = mmap(nullptr, 2 * kMiB, PROT_READ, MAP_SHARED, memory->descriptor, 0);
  ASSERT_NE(others, MAP_FAILED);
  const auto* const seen = static_cast<const std::byte*>(others);
  for (std::size_t i = 0; i < 2 * kMiB; ++i) ASSERT_EQ(seen[i], std::byte{0}) << i;
  memory->data[5] = std::byte{42};
  EXPECT_EQ(seen[5], std::byte{42});
  munmap(others, 2 * kMiB);
  close(memory->descriptor);
  memory->free();
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

TEST_F(CudaMemory, WhateverTheDriverRefusesLeavesNothingBehind) {
  for (const char* call :
       {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemExportToShareableHandle"}) {
    SCOPED_TRACE(call);
    fake::RefuseDriverCall(call);
    const std::size_t descriptors = OpenDescriptors();
    const auto memory = executor_->MakeShared(0, 2 * kMiB);
    EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(std::string(memory.status().message()), std::string(call) + ": out of memory");
    EXPECT_EQ(fake::Allocations(), before_);
    EXPECT_EQ(OpenDescriptors(), descriptors);
  }
}

TEST_F(CudaMemory, ADeviceWithoutDescriptorsHasNone) {
  fake::RefuseDriverCall("cuDeviceGetAttribute");
  EXPECT_EQ(executor_->shared_page(0), 0u);
}

}  // namespace
}  // namespace softmax::server
