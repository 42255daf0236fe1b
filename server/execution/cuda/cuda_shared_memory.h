#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "server/base/region.h"
#include "server/execution/faults.h"

namespace softmax::server {

// Memory that CUDA devices and other processes reach. Devices are CUDA's ordinals. One thread at a time; makes a device
// current.

// 0: one of the devices does not take the host's addresses of registered memory.
std::uint64_t RegisteredPageBytes(const std::vector<int>& devices);
// Shared pages that all devices read and write at the host's addresses.
absl::StatusOr<SharedMemory> MakeRegisteredPages(std::uint64_t bytes, const std::vector<int>& devices,
                                                 FaultPlan* faults);

// 0: the device or its driver cannot share memory by a descriptor.
std::uint64_t SharedDevicePageBytes(int device);
// The device's own memory, with a descriptor for cuMemImportFromShareableHandle.
absl::StatusOr<SharedMemory> MakeSharedDeviceMemory(int device, std::uint64_t bytes, FaultPlan* faults);

// As cuDeviceGetUuid has it; zeros where CUDA does not say.
std::array<std::uint8_t, 16> DeviceUuid(int device);

}  // namespace softmax::server
