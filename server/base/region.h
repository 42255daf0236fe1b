#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace softmax::server {

// What names a region to those who may use it: random, so that it cannot be guessed.
using RegionToken = std::array<std::uint8_t, 16>;

// Memory that the server shares with a process of its machine. The client may write there at any time, so nothing in it
// is ever trusted: only elements of tensors lie there, and answers. Immutable; whoever uses the memory holds a
// reference, the last of which gives it back.
class Region {
 public:
  static constexpr int kHost = -1;

  // `memory`: the server's mapping, or the device's address on `device` (a number in the order of Executor::devices()).
  // `free` gives it back.
  Region(const RegionToken& token, std::byte* memory, std::uint64_t bytes, int device, std::function<void()> free)
      : token_(token), memory_(memory), bytes_(bytes), device_(device), free_(std::move(free)) {}
  ~Region() { free_(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  const RegionToken& token() const { return token_; }
  std::byte* memory() const { return memory_; }
  std::uint64_t bytes() const { return bytes_; }
  int device() const { return device_; }

 private:
  const RegionToken token_;
  std::byte* const memory_;
  const std::uint64_t bytes_;
  const int device_;
  const std::function<void()> free_;
};

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
