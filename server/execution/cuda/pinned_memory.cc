#include "server/execution/cuda/pinned_memory.h"

#include "server/execution/cuda/cuda_call.h"
#include "server/execution/cuda/cuda_shared_memory.h"

namespace softmax::server {

std::unique_ptr<PinnedMemory> PinnedMemory::Allocate(std::size_t bytes, const std::vector<int>& devices,
                                                     FaultPlan* faults, const Touch& touch, cudaError_t* error) {
  std::unique_ptr<PinnedMemory> memory(new PinnedMemory);
  if (RegisteredPageBytes(devices) > 0) memory->pages_ = HostMemory::Allocate(bytes);
  if (memory->pages_ != nullptr && touch) touch(memory->pages_->data());
  // One name for both, so that a fault finds it.
  *error = MakeAllocation(faults, "cudaHostAlloc", [&] {
    if (memory->pages_ != nullptr) {
      return cudaHostRegister(memory->pages_->data(), bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
    }
    void* data = nullptr;
    const cudaError_t result = cudaHostAlloc(&data, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    memory->data_ = static_cast<std::byte*>(data);
    return result;
  });
  if (*error != cudaSuccess) return nullptr;
  if (memory->pages_ != nullptr) memory->data_ = memory->pages_->data();
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  // After a device's failure these fail as well; the process is about to end.
  if (pages_ != nullptr) {
    (void)cudaHostUnregister(data_);
  } else {
    (void)cudaFreeHost(data_);
  }
}

}  // namespace softmax::server
