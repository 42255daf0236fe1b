#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace softmax {

// Bytes of the token that names a region.
constexpr std::size_t kTokenBytes = 16;

// Where bytes lie in a region (the proto's Place).
struct WirePlace {
  std::array<std::uint8_t, kTokenBytes> region = {};
  std::uint64_t offset = 0;
};

}  // namespace softmax
