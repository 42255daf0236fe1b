#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "server/base/clock.h"

namespace softmax::server {

// What tests make a device do (--fault, which needs --unsafe-testing):
//   error:N     launch number N, counted from 1 over all lanes, fails as a CUDA call does
//   hang:N      launch number N and all after it on its lane never finish
//   late:D      every batch is reported D later than it finished (200us, 5ms)
struct LaneFaults {
  enum class Kind : std::uint8_t { kNone, kError, kHang, kLate };
  Kind kind = Kind::kNone;
  std::uint64_t launch = 0;
  Nanoseconds delay{0};
};

}  // namespace softmax::server
