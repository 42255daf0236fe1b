#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/base/region.h"

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

// What this process may have of the machine's memory, in bytes; empty: unlimited, or not told.
struct MemoryLimits {
  std::optional<std::uint64_t> total, available;  // of the machine
  std::optional<std::uint64_t> control_group;     // of the container
  std::optional<std::uint64_t> address_space;     // RLIMIT_AS
};
// `root`: where /proc and /sys are found, for tests.
MemoryLimits ReadMemoryLimits(const std::string& root = "");

// RESOURCE_EXHAUSTED for memory that was refused at start: how much it was, what there is, and what to do. `flag` sets
// its size ("arena-bytes"); `attempt` says what failed ("cannot pin"); `reason`: the system's words, or empty.
absl::Status MemoryShortage(const std::string& flag, const std::string& attempt, std::uint64_t bytes,
                            const std::string& reason, const MemoryLimits& limits = ReadMemoryLimits());

inline constexpr std::uint64_t kSharedPageBytes = 4096;

// `bytes` (whole pages) of host memory in a file of no name, mapped here. The other process can neither shrink nor grow
// it, and all pages are there, so that no access faults for want of memory. Huge pages where the system gives shared
// memory any.
absl::StatusOr<SharedMemory> MakeSharedPages(std::uint64_t bytes);

}  // namespace softmax::server
