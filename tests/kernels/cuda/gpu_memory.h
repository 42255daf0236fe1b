#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/softmax.h"

// Memory for the kernel tests, and the fixture that skips where there is no GPU.
namespace softmax::kernels::testing {

#define ASSERT_CUDA(call) ASSERT_EQ(cudaSuccess, (call))

enum class Place { kDevice, kMapped };

// Bytes on the device or in mapped host memory, copied to and fro by synchronous calls.
class Memory {
 public:
  Memory(std::size_t bytes, Place place) : bytes_(bytes), place_(place) {
    const std::size_t size = bytes == 0 ? 1 : bytes;
    const cudaError_t error = place == Place::kDevice
                                  ? cudaMalloc(&data_, size)
                                  : cudaHostAlloc(&data_, size, cudaHostAllocMapped | cudaHostAllocPortable);
    EXPECT_EQ(cudaSuccess, error);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { place_ == Place::kDevice ? cudaFree(data_) : cudaFreeHost(data_); }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return bytes_; }
  void Write(const std::vector<std::byte>& from) {
    EXPECT_EQ(cudaSuccess, cudaMemcpy(data_, from.data(), from.size(), cudaMemcpyDefault));
  }
  std::vector<std::byte> Read() const {
    std::vector<std::byte> to(bytes_);
    EXPECT_EQ(cudaSuccess, cudaMemcpy(to.data(), data_, bytes_, cudaMemcpyDefault));
    return to;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
  Place place_;
};

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
      GTEST_SKIP() << "SKIPPED: no GPU";
    }
    ASSERT_CUDA(PrepareSoftmaxKernels());
  }
};

}  // namespace softmax::kernels::testing
