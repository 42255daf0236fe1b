// Stands in for libnvidia-ml.so.1: two GPUs, the second without ECC memory. Tests steer it through fake_nvml_mode.
#include <atomic>
#include <cstdio>
#include <thread>

extern "C" {

// 0: all is well. 1: every question about a GPU is answered with "lost". 2: utilization is never answered.
std::atomic<int> fake_nvml_mode{0};
std::atomic<int> fake_nvml_initialized{0};

struct nvmlDevice_st {
  unsigned index;
};
struct FakeUtilization {
  unsigned gpu, memory;
};
struct FakeMemory {
  unsigned long long total, free, used;
};
static nvmlDevice_st devices[] = {{0}, {1}};
constexpr int kNotSupported = 3;
constexpr int kLost = 15;

static int Answer() { return fake_nvml_mode == 1 ? kLost : 0; }

int nvmlInit_v2() {
  ++fake_nvml_initialized;
  return 0;
}
int nvmlShutdown() {
  --fake_nvml_initialized;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_st** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetUUID(nvmlDevice_st* device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%u", device->index);
  return Answer();
}
int nvmlDeviceGetName(nvmlDevice_st*, char* text, unsigned size) {
  std::snprintf(text, size, "Fake \"H100\" 80GB");
  return Answer();
}
int nvmlDeviceGetUtilizationRates(nvmlDevice_st* device, FakeUtilization* rates) {
  while (fake_nvml_mode == 2) std::this_thread::yield();
  *rates = {device->index == 0 ? 37u : 100u, 12};
  return Answer();
}
int nvmlDeviceGetMemoryInfo(nvmlDevice_st*, FakeMemory* memory) {
  *memory = {85899345920ull, 84825604096ull, 1073741824ull};
  return Answer();
}
int nvmlDeviceGetPowerUsage(nvmlDevice_st*, unsigned* milliwatts) {
  *milliwatts = 251500;
  return Answer();
}
int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_st*, unsigned* milliwatts) {
  *milliwatts = 700000;
  return Answer();
}
int nvmlDeviceGetTemperature(nvmlDevice_st*, unsigned sensor, unsigned* celsius) {
  *celsius = 41;
  return sensor == 0 ? Answer() : kNotSupported;
}
int nvmlDeviceGetClockInfo(nvmlDevice_st*, unsigned type, unsigned* megahertz) {
  *megahertz = 1980;
  return type == 1 ? Answer() : kNotSupported;
}
int nvmlDeviceGetTotalEccErrors(nvmlDevice_st* device, unsigned type, unsigned counter, unsigned long long* count) {
  *count = type == 0 ? 5 : 1;
  return device->index == 0 && type <= 1 && counter == 0 ? Answer() : kNotSupported;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_st* device, unsigned long long* reasons) {
  *reasons = device->index == 0 ? 0x1 : 0x24;  // idle; software power cap and software thermal slowdown
  return Answer();
}
}
