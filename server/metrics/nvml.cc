#include "server/metrics/nvml.h"

#include <dlfcn.h>

namespace softmax::server {
namespace {

// The few declarations of nvml.h that are used here, as its ABI has had them since NVML 4 (the _v2 ones since 5.319).
// Every call returns 0 for success.
using Device = struct nvmlDevice_st*;
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct Memory {
  unsigned long long total, free, used;
};
constexpr unsigned kTemperatureOfGpu = 0;
constexpr unsigned kClockOfMultiprocessors = 1;
constexpr unsigned kEccCorrected = 0;
constexpr unsigned kEccUncorrected = 1;
constexpr unsigned kEccSinceDriverLoad = 0;
constexpr unsigned kNameBytes = 96;

// A function of the library, of whatever type it is asked for; null: it has none of this name.
struct Symbol {
  void* library;
  const char* name;
  template <typename F>
  operator F*() const {
    return reinterpret_cast<F*>(dlsym(library, name));
  }
};

struct Functions {
  void* library;
  int (*init)() = Symbol{library, "nvmlInit_v2"};
  int (*shut_down)() = Symbol{library, "nvmlShutdown"};
  int (*count)(unsigned*) = Symbol{library, "nvmlDeviceGetCount_v2"};
  int (*device)(unsigned, Device*) = Symbol{library, "nvmlDeviceGetHandleByIndex_v2"};
  // Optional: an older driver may lack some.
  int (*uuid)(Device, char*, unsigned) = Symbol{library, "nvmlDeviceGetUUID"};
  int (*name)(Device, char*, unsigned) = Symbol{library, "nvmlDeviceGetName"};
  int (*utilization)(Device, Utilization*) = Symbol{library, "nvmlDeviceGetUtilizationRates"};
  int (*memory)(Device, Memory*) = Symbol{library, "nvmlDeviceGetMemoryInfo"};
  int (*power)(Device, unsigned*) = Symbol{library, "nvmlDeviceGetPowerUsage"};                // milliwatts
  int (*power_limit)(Device, unsigned*) = Symbol{library, "nvmlDeviceGetEnforcedPowerLimit"};  // milliwatts
  int (*temperature)(Device, unsigned, unsigned*) = Symbol{library, "nvmlDeviceGetTemperature"};
  int (*clock)(Device, unsigned, unsigned*) = Symbol{library, "nvmlDeviceGetClockInfo"};  // MHz
  int (*ecc_errors)(Device, unsigned, unsigned, unsigned long long*) = Symbol{library, "nvmlDeviceGetTotalEccErrors"};
  int (*throttle_reasons)(Device, unsigned long long*) = Symbol{library, "nvmlDeviceGetCurrentClocksThrottleReasons"};
};

std::string Text(int (*function)(Device, char*, unsigned), Device device) {
  char text[kNameBytes] = "";
  if (function == nullptr || function(device, text, kNameBytes) != 0) return "";
  text[kNameBytes - 1] = '\0';
  return text;
}

// The number that function(device, arguments..., &number) gives, times `unit`.
template <typename N, typename F, typename... Arguments>
std::optional<double> Number(F function, double unit, Device device, Arguments... arguments) {
  N number = 0;
  if (function == nullptr || function(device, arguments..., &number) != 0) return std::nullopt;
  return static_cast<double>(number) * unit;
}

class NvmlLibrary final : public Nvml {
 public:
  explicit NvmlLibrary(const Functions& functions) : f_(functions) {}
  ~NvmlLibrary() override { f_.shut_down(); }

  std::vector<GpuStats> Read() const override {
    std::vector<GpuStats> all;
    unsigned count = 0;
    if (f_.count(&count) != 0) return all;
    for (unsigned index = 0; index < count; ++index) {
      Device device = nullptr;
      if (f_.device(index, &device) == 0) all.push_back(ReadDevice(index, device));
    }
    return all;
  }

 private:
  GpuStats ReadDevice(unsigned index, Device device) const {
    GpuStats stats;
    stats.index = index;
    stats.uuid = Text(f_.uuid, device);
    stats.name = Text(f_.name, device);
    Utilization utilization{};
    if (f_.utilization != nullptr && f_.utilization(device, &utilization) == 0) {
      stats.utilization_ratio = utilization.gpu / 100.0;
    }
    Memory memory{};
    if (f_.memory != nullptr && f_.memory(device, &memory) == 0) {
      stats.memory_total_bytes = static_cast<double>(memory.total);
      stats.memory_used_bytes = static_cast<double>(memory.used);
    }
    stats.power_watts = Number<unsigned>(f_.power, 1e-3, device);
    stats.power_limit_watts = Number<unsigned>(f_.power_limit, 1e-3, device);
    stats.temperature_celsius = Number<unsigned>(f_.temperature, 1, device, kTemperatureOfGpu);
    stats.clock_hertz = Number<unsigned>(f_.clock, 1e6, device, kClockOfMultiprocessors);
    using Count = unsigned long long;
    stats.corrected_ecc_errors = Number<Count>(f_.ecc_errors, 1, device, kEccCorrected, kEccSinceDriverLoad);
    stats.uncorrected_ecc_errors = Number<Count>(f_.ecc_errors, 1, device, kEccUncorrected, kEccSinceDriverLoad);
    Count reasons = 0;
    if (f_.throttle_reasons != nullptr && f_.throttle_reasons(device, &reasons) == 0) stats.throttle_mask = reasons;
    return stats;
  }

  const Functions f_;
};

}  // namespace

std::unique_ptr<Nvml> Nvml::Load(const char* library) {
  // Never closed: the driver may have threads of its own in it.
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  const Functions functions{handle};
  if (functions.init == nullptr || functions.shut_down == nullptr || functions.count == nullptr ||
      functions.device == nullptr || functions.init() != 0) {
    return nullptr;
  }
  return std::make_unique<NvmlLibrary>(functions);
}

}  // namespace softmax::server
