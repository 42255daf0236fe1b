#include "server/metrics/process_stats.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/support/eventually.h"

namespace softmax::server {
namespace {

// Fields 3 to 24 of proc(5); the name holds what would confuse a naive split.
constexpr char kStat[] = "4711 (a) b (c) S 1 1 1 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 300 104857600 512";

TEST(ParseProcStat, ReadsPastANameWithSpacesAndBrackets) {
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const ProcessStats stats = ParseProcStat(kStat, 1000.0);
  EXPECT_DOUBLE_EQ(stats.cpu_seconds.value(), 300 / ticks);
  EXPECT_DOUBLE_EQ(stats.threads.value(), 9);
  EXPECT_DOUBLE_EQ(stats.start_time_seconds.value(), 1000 + 300 / ticks);
  EXPECT_DOUBLE_EQ(stats.virtual_bytes.value(), 104857600);
  EXPECT_DOUBLE_EQ(stats.resident_bytes.value(), 512.0 * sysconf(_SC_PAGESIZE));
}

TEST(ParseProcStat, LeavesOutWhatIsNotThere) {
  EXPECT_FALSE(ParseProcStat("", 1000.0).cpu_seconds);
  EXPECT_FALSE(ParseProcStat("4711 (short) S 1 1", 1000.0).threads);
  EXPECT_FALSE(ParseProcStat(kStat, std::nullopt).start_time_seconds);
}

TEST(ReadProcessStats, SeesThisProcess) {
  const ProcessStats before = ReadProcessStats();
  const int fd = open("/dev/null", O_RDONLY);
  ASSERT_GE(fd, 0);
  const ProcessStats after = ReadProcessStats();
  int open_now = 0;
  for (int number = 0; number < 4096; ++number) open_now += fcntl(number, F_GETFD) >= 0 ? 1 : 0;
  EXPECT_EQ(after.open_fds, open_now);
  close(fd);
  EXPECT_EQ(after.open_fds.value(), before.open_fds.value() + 1);
  // A thread of an earlier test, whose driver held it up, may end meanwhile.
  EXPECT_TRUE(testing::Eventually([] {
    const double alone = ReadProcessStats().threads.value();
    double with_another = 0;
    std::thread([&] { with_another = ReadProcessStats().threads.value(); }).join();
    return with_another == alone + 1;
  }));
  EXPECT_GT(after.max_fds.value(), after.open_fds.value());
  EXPECT_GT(after.resident_bytes.value(), 1e6);
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(after.start_time_seconds.value(), now, 600);
}

}  // namespace
}  // namespace softmax::server
