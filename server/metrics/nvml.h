#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace softmax::server {

// What the driver says about one GPU, in Prometheus' base units. What it does not know (ECC without ECC memory,
// utilization of a MIG slice, anything of a GPU that is lost) is absent, never 0.
struct GpuStats {
  std::uint32_t index = 0;  // as nvidia-smi counts; inside a container, among the GPUs it was given
  std::string uuid, name;
  std::optional<double> utilization_ratio, memory_total_bytes, memory_used_bytes;
  std::optional<double> power_watts, power_limit_watts, temperature_celsius, clock_hertz;
  std::optional<double> corrected_ecc_errors, uncorrected_ecc_errors;  // since the driver was loaded
  std::optional<std::uint64_t> throttle_mask;                          // of kThrottleReasons
};

// Why a GPU runs below the clock that it was asked for; idling is not among them.
struct ThrottleReason {
  std::uint64_t mask;
  const char* name;
};
inline constexpr ThrottleReason kThrottleReasons[] = {
    {0x04, "software_power_cap"}, {0x08, "hardware_slowdown"}, {0x20, "software_thermal"},
    {0x40, "hardware_thermal"},   {0x80, "power_brake"},
};

// NVIDIA's management library, found at run time: it comes with the driver, and a machine without one runs the same
// program. Thread-safe as NVML is; its calls take from microseconds to, with a GPU that is failing, for ever.
class Nvml {
 public:
  // Null: no such library, one that lacks a needed function, or a driver that does not answer it.
  static std::unique_ptr<Nvml> Load(const char* library);
  virtual ~Nvml() = default;

  // Every GPU that the driver shows to this process.
  virtual std::vector<GpuStats> Read() const = 0;
};

}  // namespace softmax::server
