#include "kernels/cuda/device.h"

#include <array>
#include <atomic>

namespace softmax::kernels::cuda {
namespace {

constexpr int kMaxDevices = 64;
// Static shared memory of the kernels, and what CUDA reserves per block, rounded up.
constexpr int kReservedSharedBytes = 2048;

struct Slot {
  std::atomic<bool> ready = false;
  Device device;
  std::atomic<bool> writing = false;
};

cudaError_t Ask(int index, Device* device) {
  int shared = 0;
  int major = 0;
  cudaError_t error = cudaDeviceGetAttribute(&device->multiprocessors, cudaDevAttrMultiProcessorCount, index);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  }
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
  }
  device->shared_bytes = shared - kReservedSharedBytes;
  device->clusters = major >= 9;
  return error;
}

}  // namespace

cudaError_t CurrentDevice(Device* device) {
  static std::array<Slot, kMaxDevices> slots;
  int index = 0;
  if (const cudaError_t error = cudaGetDevice(&index); error != cudaSuccess) return error;
  if (index < kMaxDevices && slots[index].ready.load(std::memory_order_acquire)) {
    *device = slots[index].device;
    return cudaSuccess;
  }
  const cudaError_t error = Ask(index, device);
  // Several threads may ask at the same time; the first one keeps its answer.
  if (error == cudaSuccess && index < kMaxDevices && !slots[index].writing.exchange(true)) {
    slots[index].device = *device;
    slots[index].ready.store(true, std::memory_order_release);
  }
  return error;
}

}  // namespace softmax::kernels::cuda
