#include "kernels/cuda/device.h"

#include <array>
#include <atomic>
#include <cstdlib>

#include "kernels/cuda/core/work.h"
#include "kernels/cuda/launch.h"

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

// Whether blocks that fill a multiprocessor each can be a cluster of so many: it depends on how the device's
// multiprocessors are grouped.
bool HoldsCluster(int blocks, int shared_bytes) {
  const void* const kernel = FlagKernelAddress();
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(blocks);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(32);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  const bool asked =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes) == cudaSuccess &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess &&
      cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess;
  if (!asked) cudaGetLastError();  // it only means no
  return asked && clusters > 0;
}

// See Device::fast_memory. Where a device does not say, its memory is not.
bool HasFastMemory(int multiprocessors, int index) {
  constexpr double kFast = 30e9;  // bytes a second for each multiprocessor
  int kilohertz = 0;
  int bits = 0;
  const bool asked = cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, index) == cudaSuccess &&
                     cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, index) == cudaSuccess;
  if (!asked) cudaGetLastError();  // it only means no
  return asked && kilohertz * 1e3 * 2 * bits / 8 > kFast * multiprocessors;
}

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
  if (error != cudaSuccess) return error;
  device->fast_memory = HasFastMemory(device->multiprocessors, index);
  // The switch shows on a new device what an old one does.
  device->clusters = major >= 9 && std::getenv("SOFTMAX_NO_CLUSTERS") == nullptr;
  if (device->clusters) {
    device->cluster_blocks =
        HoldsCluster(kLargeClusterBlocks, device->shared_bytes) ? kLargeClusterBlocks : kMaxClusterBlocks;
  }
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
