#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace softmax::client {

// Device memory of another process, mapped here by the CUDA driver, which is loaded when first needed: the library
// links no CUDA. In the device's primary context, which CUDA's runtime, and so torch, uses, too.
class DeviceMapping {
 public:
  // Of a descriptor made with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, which stays the caller's. UNIMPLEMENTED: no
  // driver here; NOT_FOUND: this process has no device of that UUID.
  static absl::StatusOr<std::unique_ptr<DeviceMapping>> Map(int fd, std::uint64_t bytes,
                                                            const std::array<std::uint8_t, 16>& device_uuid);
  ~DeviceMapping();
  DeviceMapping(const DeviceMapping&) = delete;
  DeviceMapping& operator=(const DeviceMapping&) = delete;

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  int device() const { return device_; }  // its number in this process

  // Return when the bytes are there.
  absl::Status Write(std::size_t offset, std::span<const std::byte> from) const;
  absl::Status Read(std::size_t offset, std::span<std::byte> to) const;

 private:
  DeviceMapping() = default;
  absl::Status Import(int fd);

  int device_ = -1;
  void* context_ = nullptr;
  std::uint64_t bytes_ = 0;
  unsigned long long handle_ = 0;
  unsigned long long address_ = 0;
  bool has_handle_ = false;
  bool mapped_ = false;
};

}  // namespace softmax::client
