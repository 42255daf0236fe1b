#include "server/metrics/gpu_sampler.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "tests/support/eventually.h"

namespace softmax::server {
namespace {

using std::chrono::milliseconds;

constexpr char kFake[] = SOFTMAX_FAKE_NVML;

// A variable of the fake, which is loaded once a process.
std::atomic<int>& Fake(const char* name) {
  void* library = dlopen(kFake, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return *static_cast<std::atomic<int>*>(dlsym(library, name));
}

GpuSampler::Options FakeOptions(milliseconds interval) {
  GpuSampler::Options options;
  options.library = kFake;
  options.interval = interval;
  return options;
}

// The first sample that `wanted` accepts; empty when none came in 20 s.
template <typename F>
std::vector<GpuStats> WaitFor(const GpuSampler& sampler, F wanted) {
  std::vector<GpuStats> sample;
  const bool came = testing::Eventually(
      [&] {
        sample = sampler.Latest();
        return !sample.empty() && wanted(sample);
      },
      std::chrono::seconds(20), milliseconds(1));
  return came ? sample : std::vector<GpuStats>();
}

class GpuSamplerTest : public ::testing::Test {
 protected:
  ~GpuSamplerTest() override { Fake("fake_nvml_mode") = 0; }
};

TEST_F(GpuSamplerTest, ReadsEveryGpuInBaseUnits) {
  const GpuSampler sampler(FakeOptions(std::chrono::hours(1)));
  const std::vector<GpuStats> gpus = WaitFor(sampler, [](const auto&) { return true; });
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].uuid, "GPU-0");
  EXPECT_EQ(gpus[0].name, "Fake \"H100\" 80GB");
  EXPECT_EQ(gpus[0].utilization_ratio, 0.37);
  EXPECT_EQ(gpus[1].utilization_ratio, 1.0);
  EXPECT_EQ(gpus[0].memory_total_bytes, 80.0 * (1 << 30));
  EXPECT_EQ(gpus[0].memory_used_bytes, 1.0 * (1 << 30));
  EXPECT_EQ(gpus[0].power_watts, 251.5);
  EXPECT_EQ(gpus[0].power_limit_watts, 700);
  EXPECT_EQ(gpus[0].temperature_celsius, 41);
  EXPECT_EQ(gpus[0].clock_hertz, 1980e6);
  EXPECT_EQ(gpus[0].corrected_ecc_errors, 5);
  EXPECT_EQ(gpus[0].uncorrected_ecc_errors, 1);
  EXPECT_EQ(gpus[0].throttle_mask, 1u);
  EXPECT_EQ(gpus[1].throttle_mask, 0x24u);
}

TEST_F(GpuSamplerTest, WhatIsNotSupportedIsAbsent) {
  const GpuSampler sampler(FakeOptions(std::chrono::hours(1)));
  const std::vector<GpuStats> gpus = WaitFor(sampler, [](const auto&) { return true; });
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_FALSE(gpus[1].corrected_ecc_errors.has_value());
  EXPECT_TRUE(gpus[1].power_watts.has_value());
}

TEST_F(GpuSamplerTest, AGpuThatIsLostKeepsItsIndexAndLosesItsNumbers) {
  const GpuSampler sampler(FakeOptions(milliseconds(5)));
  ASSERT_FALSE(WaitFor(sampler, [](const auto& gpus) { return gpus[0].power_watts.has_value(); }).empty());
  Fake("fake_nvml_mode") = 1;
  const auto gpus = WaitFor(sampler, [](const auto& all) { return !all[0].power_watts.has_value(); });
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[1].index, 1u);
  EXPECT_FALSE(gpus[0].memory_total_bytes.has_value());
  EXPECT_FALSE(gpus[0].throttle_mask.has_value());
}

TEST_F(GpuSamplerTest, ADriverThatHangsLeavesNothingAndHoldsNobodyUp) {
  std::atomic<int>& mode = Fake("fake_nvml_mode");
  auto sampler = std::make_unique<GpuSampler>(FakeOptions(milliseconds(5)));
  ASSERT_FALSE(WaitFor(*sampler, [](const auto&) { return true; }).empty());
  mode = 2;
  EXPECT_TRUE(testing::Eventually([&] { return sampler->Latest().empty(); }));
  sampler.reset();  // returns although the thread is still in the driver; the test's time limit is the proof
  EXPECT_GT(Fake("fake_nvml_initialized"), 0);
  mode = 0;
  EXPECT_TRUE(testing::Eventually([] { return Fake("fake_nvml_initialized") == 0; }));
}

TEST_F(GpuSamplerTest, ClosesTheLibraryAtTheEnd) {
  {
    const GpuSampler sampler(FakeOptions(std::chrono::hours(1)));
    ASSERT_FALSE(WaitFor(sampler, [](const auto&) { return true; }).empty());
    EXPECT_EQ(Fake("fake_nvml_initialized"), 1);
  }
  EXPECT_EQ(Fake("fake_nvml_initialized"), 0);
}

TEST_F(GpuSamplerTest, WithoutTheLibraryThereIsSilence) {
  GpuSampler::Options options;
  options.library = "libno-such-library.so.1";
  const GpuSampler sampler(options);
  EXPECT_TRUE(sampler.Latest().empty());
  EXPECT_EQ(Nvml::Load("libno-such-library.so.1"), nullptr);
  // A library without NVML's functions is none.
  EXPECT_EQ(Nvml::Load("libm.so.6"), nullptr);
}

}  // namespace
}  // namespace softmax::server
