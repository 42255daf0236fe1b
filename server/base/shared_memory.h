#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "server/base/region.h"

namespace softmax::server {

// Memory that another process can have, too. All zeros when it is made.
struct SharedMemory {
  std::byte* data = nullptr;   // this process's mapping, or the device's address
  int descriptor = -1;         // what the other process maps or imports; whoever has this closes it
  std::function<void()> free;  // gives the memory back, whether or not the other process still has it
};

// Makes it. Devices are numbers in the order of Executor::devices(), or Region::kHost. One thread at a time.
class SharedMemorySource {
 public:
  virtual ~SharedMemorySource() = default;
  // What sizes are multiples of; 0: there is no such memory.
  virtual std::uint64_t shared_page(int device) const = 0;
  // The error says what the system refused.
  virtual absl::StatusOr<SharedMemory> MakeShared(int device, std::uint64_t bytes) = 0;
  // As other processes know the device.
  virtual std::array<std::uint8_t, 16> device_uuid(int /*device*/) const { return {}; }
};

}  // namespace softmax::server
