#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "server/config/config.h"

namespace softmax::server {
namespace {

TEST(PrintTest, SettingsAreInBaseUnitsUnderTheNameOfTheFlag) {
  Config config;
  config.max_queue_delay = std::chrono::microseconds(200);
  const auto settings = ConfigSettings(config);
  const auto value = [&](const std::string& name) {
    for (const auto& [known, number] : settings) {
      if (known == name) {
        return number;
      }
    }
    ADD_FAILURE() << name << " is missing";
    return -1.0;
  };
  EXPECT_EQ(value("max_batch_bytes"), 1048576);
  EXPECT_EQ(value("memory_quota_bytes"), 4294967296);
  EXPECT_DOUBLE_EQ(value("max_queue_delay_seconds"), 0.0002);
  EXPECT_EQ(value("max_connections"), 4096);
  EXPECT_EQ(value("reflection"), 1);
  EXPECT_EQ(value("unsafe_testing"), 0);
}

TEST(PrintTest, ZeroIsHalfOfAllRegions) {
  Config config;
  config.regions_bytes = 60;
  config.regions_device_bytes = 120;
  EXPECT_EQ(EffectiveRegionBytes(config), 30u);
  EXPECT_EQ(EffectiveRegionDeviceBytes(config), 60u);
  config.regions_connection_bytes = 7;
  config.regions_device_connection_bytes = 9;
  EXPECT_EQ(EffectiveRegionBytes(config), 7u);
  EXPECT_EQ(EffectiveRegionDeviceBytes(config), 9u);
}

TEST(PrintTest, ZeroChoosesByTheNumberOfCores) {
  Config config;
  EXPECT_EQ(EffectiveThreads(config, 16), QueuesFor(16));
  EXPECT_EQ(EffectiveCpuThreads(config, 0), 1u);
  EXPECT_EQ(EffectiveCpuThreads(config, 6), 6u);
  EXPECT_EQ(EffectiveFillerThreads(config, 2), 1u);
  EXPECT_EQ(EffectiveFillerThreads(config, 16), 4u);
  config.threads = 12;
  EXPECT_EQ(EffectiveThreads(config, 2), 12u);
  EXPECT_EQ(DescribeThreads(config, {4, "4 of 32 cores (the cgroup's quota)"}),
            "threads 12, cpu-threads 4, filler-threads 1 for 4 of 32 cores (the cgroup's quota)");
}

}  // namespace
}  // namespace softmax::server
