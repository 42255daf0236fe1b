// With the fake of libnvidia-ml.so.1 in LD_LIBRARY_PATH, as ctest sets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <memory>
#include <string>

#include "server/metrics/metrics.h"
#include "tests/support/eventually.h"

namespace softmax::server {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string RenderAfterFirstSample(const std::string& backend) {
  Metrics::Options options;
  options.backend = backend;
  const auto metrics = Metrics::Create(std::move(options));
  std::string text;
  testing::Eventually([&] {
    text = metrics->Render();
    return backend != "cuda" || text.find("softmax_gpu_info") != std::string::npos;
  });
  return text;
}

bool HaveFake() {
  const char* path = getenv("LD_LIBRARY_PATH");
  return path != nullptr && std::string(path).find("metrics/fake") != std::string::npos;
}

TEST(GpuMetrics, ArePublishedWhereTheDriverHasThem) {
  if (!HaveFake()) GTEST_SKIP() << "the fake NVML is not in LD_LIBRARY_PATH";
  const std::string text = RenderAfterFirstSample("cuda");
  for (const char* line : {
           "softmax_gpu_info{gpu=\"0\",uuid=\"GPU-0\",name=\"Fake \\\"H100\\\" 80GB\"} 1\n",
           "softmax_gpu_utilization_ratio{gpu=\"0\"} 0.37\n",
           "softmax_gpu_memory_bytes{gpu=\"1\",state=\"used\"} 1073741824\n",
           "softmax_gpu_memory_bytes{gpu=\"1\",state=\"total\"} 85899345920\n",
           "softmax_gpu_power_watts{gpu=\"0\"} 251.5\n",
           "softmax_gpu_power_limit_watts{gpu=\"0\"} 700\n",
           "softmax_gpu_temperature_celsius{gpu=\"1\"} 41\n",
           "softmax_gpu_clock_hertz{gpu=\"1\"} 1980000000\n",
           "softmax_gpu_ecc_errors_total{gpu=\"0\",kind=\"corrected\"} 5\n",
           "softmax_gpu_ecc_errors_total{gpu=\"0\",kind=\"uncorrected\"} 1\n",
           "softmax_gpu_throttled{gpu=\"0\",reason=\"software_power_cap\"} 0\n",
           "softmax_gpu_throttled{gpu=\"1\",reason=\"software_power_cap\"} 1\n",
           "softmax_gpu_throttled{gpu=\"1\",reason=\"software_thermal\"} 1\n",
           "softmax_gpu_throttled{gpu=\"1\",reason=\"hardware_thermal\"} 0\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("softmax_gpu_ecc_errors_total{gpu=\"1\"")));
}

// Without one of these four perf_analyzer --collect-metrics warns and reports nothing of the GPU.
TEST(GpuMetrics, HaveTheNamesThatPerfAnalyzerReads) {
  if (!HaveFake()) GTEST_SKIP() << "the fake NVML is not in LD_LIBRARY_PATH";
  const std::string text = RenderAfterFirstSample("cuda");
  for (const char* line : {
           "nv_gpu_utilization{gpu_uuid=\"GPU-0\"} 0.37\n",
           "nv_gpu_power_usage{gpu_uuid=\"GPU-0\"} 251.5\n",
           "nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-1\"} 1073741824\n",
           "nv_gpu_memory_total_bytes{gpu_uuid=\"GPU-1\"} 85899345920\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(GpuMetrics, AreAbsentOnTheCpu) {
  EXPECT_THAT(RenderAfterFirstSample("cpu"), Not(AnyOf(HasSubstr("softmax_gpu"), HasSubstr("nv_gpu"))));
}

}  // namespace
}  // namespace softmax::server
