#include "common/base/usable_cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace softmax {
namespace {

// A made-up /proc and /sys.
class UsableCoresTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const std::string root_ =
      testing::TempDir() + "usable_cores_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(UsableCoresTest, WithoutQuotaTheMaskCounts) {
  EXPECT_EQ(CoresOf(root_, 16, 16).count, 16u);
  EXPECT_EQ(CoresOf(root_, 16, 16).why, "all 16 cores");
  EXPECT_EQ(CoresOf(root_, 64, 6).count, 6u);
  EXPECT_EQ(CoresOf(root_, 64, 6).why, "6 of 64 cores (the affinity mask)");
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(CoresOf(root_, 16, 16).why, "all 16 cores");
}

TEST_F(UsableCoresTest, AContainerOfFourCoresHasFour) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(CoresOf(root_, 32, 32).count, 4u);
  EXPECT_EQ(CoresOf(root_, 32, 32).why, "4 of 32 cores (the cgroup's quota)");
  EXPECT_EQ(CoresOf(root_, 32, 2).why, "2 of 32 cores (the affinity mask)");
}

TEST_F(UsableCoresTest, TheTightestGroupAboveCounts) {
  Write("/proc/self/cgroup", "0::/pods/one/main\n");
  Write("/sys/fs/cgroup/pods/one/main/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/pods/one/cpu.max", "300000 100000\n");
  Write("/sys/fs/cgroup/pods/cpu.max", "2400000 100000\n");
  EXPECT_EQ(CoresOf(root_, 32, 32).count, 3u);
}

TEST_F(UsableCoresTest, VersionOneAndAPathThatTheContainerDoesNotSee) {
  Write("/proc/self/cgroup", "12:memory:/docker/abc\n4:cpuacct,cpu:/docker/abc\n3:cpuset:/\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "650000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CoresOf(root_, 32, 32).count, 6u) << "rounded down";
  for (const char* none : {"-1\n", "0\n"}) {
    Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", none);
    EXPECT_EQ(CoresOf(root_, 32, 32).count, 32u);
  }
}

TEST_F(UsableCoresTest, HalfACoreIsOneAndRubbishIsNone) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(CoresOf(root_, 8, 8).count, 1u);
  for (const char* text : {"", "x", "100000", "100000 0", "-1 100000"}) {
    Write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(CoresOf(root_, 8, 8).count, 8u) << text;
  }
  Write("/proc/self/cgroup", "0:");
  EXPECT_EQ(CoresOf(root_, 8, 8).count, 8u);
}

TEST_F(UsableCoresTest, QueuesGrowWithTheCores) {
  for (const auto& [cores, queues] :
       {std::pair{0u, 1u}, {1u, 1u}, {2u, 2u}, {4u, 3u}, {8u, 6u}, {12u, 8u}, {16u, 8u}, {32u, 16u}, {200u, 32u}}) {
    EXPECT_EQ(QueuesFor(cores), queues) << cores;
  }
}

}  // namespace
}  // namespace softmax
