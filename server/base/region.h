#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

}  // namespace softmax::server
