#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/metrics/families.h"

namespace softmax::server {
namespace {

// A GPU without ECC memory has no count of errors.
void Add(const std::optional<double>& value, Reading labels, Readings* readings) {
  if (!value) return;
  labels.value = *value;
  readings->push_back(std::move(labels));
}

Reading ByIndex(const GpuStats& gpu) { return {{{"gpu", std::to_string(gpu.index)}}}; }
Reading ByUuid(const GpuStats& gpu) { return {{{"gpu_uuid", gpu.uuid}}}; }

// One gauge a GPU, of one field.
void AddGauges(const char* name, const char* help, std::optional<double> GpuStats::*field,
               const std::vector<GpuStats>& gpus, Families* out, Reading (*labels)(const GpuStats&) = ByIndex) {
  Readings readings;
  for (const GpuStats& gpu : gpus) Add(gpu.*field, labels(gpu), &readings);
  AddFamily(name, help, readings, out);
}

// The same under the names and the label of Triton Inference Server: perf_analyzer --collect-metrics reads these four.
void AddTritonGauges(const std::vector<GpuStats>& gpus, Families* out) {
  AddGauges("nv_gpu_utilization", "softmax_gpu_utilization_ratio, for perf_analyzer.", &GpuStats::utilization_ratio,
            gpus, out, ByUuid);
  AddGauges("nv_gpu_power_usage", "softmax_gpu_power_watts, for perf_analyzer.", &GpuStats::power_watts, gpus, out,
            ByUuid);
  AddGauges("nv_gpu_memory_used_bytes", "softmax_gpu_memory_bytes{state=\"used\"}, for perf_analyzer.",
            &GpuStats::memory_used_bytes, gpus, out, ByUuid);
  AddGauges("nv_gpu_memory_total_bytes", "softmax_gpu_memory_bytes{state=\"total\"}, for perf_analyzer.",
            &GpuStats::memory_total_bytes, gpus, out, ByUuid);
}

}  // namespace

void AddGpuFamilies(const std::vector<GpuStats>& gpus, Families* out) {
  Readings info, memory, errors, throttled;
  for (const GpuStats& gpu : gpus) {
    const std::string index = std::to_string(gpu.index);
    info.push_back({{{"gpu", index}, {"uuid", gpu.uuid}, {"name", gpu.name}}, 1});
    Add(gpu.memory_total_bytes, {{{"gpu", index}, {"state", "total"}}}, &memory);
    Add(gpu.memory_used_bytes, {{{"gpu", index}, {"state", "used"}}}, &memory);
    Add(gpu.corrected_ecc_errors, {{{"gpu", index}, {"kind", "corrected"}}}, &errors);
    Add(gpu.uncorrected_ecc_errors, {{{"gpu", index}, {"kind", "uncorrected"}}}, &errors);
    if (!gpu.throttle_mask) continue;
    for (const ThrottleReason& reason : kThrottleReasons) {
      const bool is_reason = (*gpu.throttle_mask & reason.mask) != 0;
      throttled.push_back({{{"gpu", index}, {"reason", reason.name}}, is_reason ? 1.0 : 0.0});
    }
  }
  AddFamily("softmax_gpu_info", "Always 1; the labels say which GPU has which index.", info, out);
  AddFamily("softmax_gpu_memory_bytes", "Memory of the GPU, all of it and what any process uses.", memory, out);
  AddFamily("softmax_gpu_ecc_errors_total", "Memory errors since the driver was loaded.", errors, out);
  AddFamily("softmax_gpu_throttled", "1 while the clock is held down for this reason.", throttled, out);
  AddGauges("softmax_gpu_utilization_ratio", "Share of the last second or less in which a kernel ran, 0 to 1.",
            &GpuStats::utilization_ratio, gpus, out);
  AddGauges("softmax_gpu_power_watts", "Power drawn now.", &GpuStats::power_watts, gpus, out);
  AddGauges("softmax_gpu_power_limit_watts", "Power at which the clock is lowered.", &GpuStats::power_limit_watts, gpus,
            out);
  AddGauges("softmax_gpu_temperature_celsius", "Temperature of the chip.", &GpuStats::temperature_celsius, gpus, out);
  AddGauges("softmax_gpu_clock_hertz", "Clock of the multiprocessors now.", &GpuStats::clock_hertz, gpus, out);
  AddTritonGauges(gpus, out);
}

}  // namespace softmax::server
