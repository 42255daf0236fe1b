// Memory that a start cannot have, and memory that a lost device leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "server/execution/devices.h"
#include "server/execution/host_memory.h"
#include "tests/server/batching/fakes.h"
#include "tests/support/temp_folder.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(MemoryShortageTest, SaysSizesAndWhatToDo) {
  MemoryLimits limits;
  limits.total = 8ull << 30;
  limits.available = 3ull << 30;
  limits.control_group = 1ull << 30;
  const absl::Status status = MemoryShortage("arena-bytes", "cannot pin", 2ull << 30, "out of memory", limits);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(
      status.message(),
      "arena-bytes: cannot pin 2147483648 bytes (2048 MiB) of memory: out of memory; of the machine's 8192 MiB "
      "3072 are available; the container may have 1024 MiB. Set a smaller --arena-bytes, or give the process more "
      "memory");
}

TEST(MemoryShortageTest, ReadsWhatTheSystemTells) {
  const softmax::testing::TempFolder folder;
  const std::string root = folder.path("root");
  EXPECT_FALSE(ReadMemoryLimits(root).total);
  Write(root + "/proc/meminfo",
        "MemTotal:       1000 kB\nMemFree:         1 kB\nMemAvailable:    500 kB\nHugePages:  0\n");
  Write(root + "/sys/fs/cgroup/memory.max", "max\n");
  MemoryLimits limits = ReadMemoryLimits(root);
  EXPECT_EQ(limits.total, 1000u << 10);
  EXPECT_EQ(limits.available, 500u << 10);
  EXPECT_FALSE(limits.control_group);
  Write(root + "/sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_EQ(ReadMemoryLimits(root).control_group, 1048576u);
  std::filesystem::remove(root + "/sys/fs/cgroup/memory.max");
  Write(root + "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // version 1: unlimited
  EXPECT_FALSE(ReadMemoryLimits(root).control_group);
  EXPECT_TRUE(ReadMemoryLimits().total);  // this machine's
}

TEST(SharedPagesTest, AreOneFile) {
  const int next = dup(0);
  close(next);
  errno = EINVAL;  // of a call before
  auto memory = MakeSharedPages(kSharedPageBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->descriptor, next);
  close(next);
  memory->free();
}

TEST(QuarantinedMemoryTest, KnowsTheLargestRunThatIsLeft) {
  constexpr std::size_t kSlab = 4096;
  testing::TestMemory memory(64 * kSlab);
  Arena arena(memory.data(), 64 * kSlab, kSlab);
  QuarantinedMemory kept;
  EXPECT_EQ(kept.LargestRun(memory.data(), 64 * kSlab), 64 * kSlab);
  SpanRef first(&arena, arena.TryReserve(10 * kSlab)), second(&arena, arena.TryReserve(10 * kSlab)),
      third(&arena, arena.TryReserve(10 * kSlab));
  kept.Keep(second);
  EXPECT_EQ(kept.LargestRun(memory.data(), 64 * kSlab), 44 * kSlab);
  kept.Keep(SpanRef(&arena, arena.TryReserve(32 * kSlab)));  // from the high end
  EXPECT_EQ(kept.LargestRun(memory.data(), 64 * kSlab), 12 * kSlab);
  first.Reset();
  second.Reset();
  third.Reset();
  EXPECT_EQ(arena.slabs_used(), 42u);
}

}  // namespace
}  // namespace softmax::server
