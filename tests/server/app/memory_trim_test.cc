#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <vector>

#include "server/app/sweeper.h"

namespace softmax::server {
namespace {

using std::chrono::seconds;

std::int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * getpagesize();
}

// As a flood leaves it: much is free, and a block here and there is not.
class MemoryTrimTest : public ::testing::Test {
 protected:
  void Flood() {
    malloc_trim(0);  // what other tests left free would take the flood in
    const std::int64_t before = ResidentBytes();
    for (int i = 0; i < 40000; ++i) flood_.push_back(std::make_unique<char[]>(5000));
    for (std::size_t i = 0; i < flood_.size(); ++i) {
      if (i % 100 != 99) flood_[i].reset();
    }
    flooded_ = ResidentBytes();
    ASSERT_GT(flooded_ - before, 150 << 20) << "this malloc gives memory back by itself";
  }

  std::vector<std::unique_ptr<char[]>> flood_;
  std::int64_t flooded_ = 0;
  const TimePoint start_{seconds(1000)};
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

TEST_F(MemoryTrimTest, GivesMemoryBackWhenItHasBeenQuiet) {
  MemoryTrim trim;
  Flood();
  for (int i = 0; i < 100; ++i) trim.Look(/*quiet=*/i % 5 != 0, start_ + i * seconds(1) / 10);
  EXPECT_GT(ResidentBytes(), flooded_ - (32 << 20));
  for (int i = 0; i < 12; ++i) trim.Look(/*quiet=*/true, start_ + seconds(20) + i * seconds(1) / 10);
  EXPECT_LT(ResidentBytes(), flooded_ - (150 << 20));
}

TEST_F(MemoryTrimTest, NotAgainAtOnce) {
  MemoryTrim trim;
  trim.Look(true, start_);
  trim.Look(true, start_ + seconds(2));  // looked, and found nothing
  Flood();
  trim.Look(true, start_ + seconds(5));
  EXPECT_GT(ResidentBytes(), flooded_ - (32 << 20));
  trim.Look(true, start_ + seconds(13));
  EXPECT_LT(ResidentBytes(), flooded_ - (150 << 20));
}

#endif

}  // namespace
}  // namespace softmax::server
