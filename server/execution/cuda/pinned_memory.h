#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "server/execution/faults.h"
#include "server/execution/host_memory.h"

namespace softmax::server {

// Host memory that all devices read and write at the host's own addresses. In huge pages where that is to be had: the
// driver's own pinned memory lies in pages of 4 KiB, and the copies into it are 3 to 9 % slower.
class PinnedMemory {
 public:
  // Is called before the pages are fixed where they are; empty: nothing is.
  using Touch = std::function<void(std::byte* memory)>;

  // On failure null, with CUDA's error.
  static std::unique_ptr<PinnedMemory> Allocate(std::size_t bytes, const std::vector<int>& devices, FaultPlan* faults,
                                                const Touch& touch, cudaError_t* error);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  PinnedMemory() = default;

  std::unique_ptr<HostMemory> pages_;  // registered; null: the driver's own
  std::byte* data_ = nullptr;
};

}  // namespace softmax::server
