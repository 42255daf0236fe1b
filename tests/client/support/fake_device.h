#pragma once

#include <array>
#include <cstdint>

namespace softmax::client {

// The devices of the fake CUDA driver, which the fake server's regions may be on.
inline constexpr int kFakeDevices = 2;

inline std::array<std::uint8_t, 16> FakeDeviceUuid(int device) {
  std::array<std::uint8_t, 16> uuid;
  uuid.fill(static_cast<std::uint8_t>(device + 1));
  return uuid;
}

}  // namespace softmax::client
