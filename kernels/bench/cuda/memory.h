#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/bench/cuda/cuda_check.h"

namespace softmax::kernels::bench {

// Memory of the device, or of the host (pinned and mapped), that only grows.
class Memory {
 public:
  enum class Where { kDevice, kHost };

  explicit Memory(Where where) : where_(where) {}
  ~Memory() { Release(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Makes it at least so large; true if the contents are new. Throws if there is not so much.
  bool Reserve(std::size_t bytes) {
    if (bytes <= bytes_) return false;
    Release();
    CudaCheck(where_ == Where::kDevice ? cudaMalloc(&data_, bytes) : cudaHostAlloc(&data_, bytes, cudaHostAllocMapped),
              "allocation");
    bytes_ = bytes;
    return true;
  }

  char* data() const { return static_cast<char*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  void Release() {
    if (data_ != nullptr) static_cast<void>(where_ == Where::kDevice ? cudaFree(data_) : cudaFreeHost(data_));
    data_ = nullptr;
    bytes_ = 0;
  }

  const Where where_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace softmax::kernels::bench
