#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "server/base/region.h"

namespace softmax::server {

inline constexpr std::uint64_t kSharedPageBytes = 4096;

// `bytes` (whole pages) of host memory in a file of no name, mapped here. The other process can neither shrink nor grow
// it, and all pages are there, so that no access faults for want of memory. Huge pages where the system gives shared
// memory any.
absl::StatusOr<SharedMemory> MakeSharedPages(std::uint64_t bytes);

}  // namespace softmax::server
