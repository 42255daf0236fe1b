#pragma once

#include <cstddef>
#include <memory>

namespace softmax::server {

// Page-aligned, zeroed memory in huge pages where the system has them.
class HostMemory {
 public:
  // Null when the system refuses.
  static std::unique_ptr<HostMemory> Allocate(std::size_t bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  HostMemory(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* const data_;
  const std::size_t bytes_;
};

}  // namespace softmax::server
