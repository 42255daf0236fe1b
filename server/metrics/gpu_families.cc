#include "server/metrics/gpu_families.h"

#include <optional>
#include <string>
#include <utility>

namespace softmax::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// A family that is only there when it has a sample: a GPU without ECC memory has no count of errors.
class GpuFamily {
 public:
  GpuFamily(const char* name, const char* help, MetricType type) : family_{name, help, type, {}} {}

  void Add(const std::optional<double>& value, Labels labels) {
    if (!value) return;
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = *value;
  }
  void MoveTo(Families* out) {
    if (!family_.metric.empty()) out->push_back(std::move(family_));
  }

 private:
  MetricFamily family_;
};

Labels ByIndex(const GpuStats& gpu) { return {{"gpu", std::to_string(gpu.index)}}; }
Labels ByUuid(const GpuStats& gpu) { return {{"gpu_uuid", gpu.uuid}}; }

// One gauge a GPU, of one field.
void AddGauges(const char* name, const char* help, std::optional<double> GpuStats::*field,
               const std::vector<GpuStats>& gpus, Families* out, Labels (*labels)(const GpuStats&) = ByIndex) {
  GpuFamily family(name, help, MetricType::Gauge);
  for (const GpuStats& gpu : gpus) family.Add(gpu.*field, labels(gpu));
  family.MoveTo(out);
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
  GpuFamily info("softmax_gpu_info", "Always 1; the labels say which GPU has which index.", MetricType::Gauge);
  GpuFamily memory("softmax_gpu_memory_bytes", "Memory of the GPU, all of it and what any process uses.",
                   MetricType::Gauge);
  GpuFamily errors("softmax_gpu_ecc_errors_total", "Memory errors since the driver was loaded.", MetricType::Counter);
  GpuFamily throttled("softmax_gpu_throttled", "1 while the clock is held down for this reason.", MetricType::Gauge);
  for (const GpuStats& gpu : gpus) {
    const std::string index = std::to_string(gpu.index);
    info.Add(1, {{"gpu", index}, {"uuid", gpu.uuid}, {"name", gpu.name}});
    memory.Add(gpu.memory_total_bytes, {{"gpu", index}, {"state", "total"}});
    memory.Add(gpu.memory_used_bytes, {{"gpu", index}, {"state", "used"}});
    errors.Add(gpu.corrected_ecc_errors, {{"gpu", index}, {"kind", "corrected"}});
    errors.Add(gpu.uncorrected_ecc_errors, {{"gpu", index}, {"kind", "uncorrected"}});
    if (!gpu.throttle_mask) continue;
    for (const ThrottleReason& reason : kThrottleReasons) {
      throttled.Add((*gpu.throttle_mask & reason.mask) != 0 ? 1 : 0, {{"gpu", index}, {"reason", reason.name}});
    }
  }
  info.MoveTo(out);
  memory.MoveTo(out);
  errors.MoveTo(out);
  throttled.MoveTo(out);
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
