#pragma once

#include <cstdint>

namespace softmax::server {

// What runs the batches. kAuto: CUDA where a device works, the CPU otherwise. kNull computes nothing, for measurements.
enum class Backend : std::uint8_t { kAuto, kCuda, kCpu, kNull };

}  // namespace softmax::server
