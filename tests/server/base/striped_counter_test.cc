#include <gtest/gtest.h>

#include <thread>

#include "server/base/counters.h"

namespace softmax::server {
namespace {

// Held by one thread and released by another, a reader sees what is held or less, never less than nothing.
TEST(StripedCounter, IsNeverLessThanNothing) {
  StripedCounter counter;
  std::jthread([&] { counter.Add(5); }).join();
  EXPECT_EQ(counter.Sum(), 5);
  counter.Add(-5);
  EXPECT_EQ(counter.Sum(), 0);
  counter.Add(-3);  // what a reader sees that misses the other thread's addition
  EXPECT_EQ(counter.Sum(), 0);
}

}  // namespace
}  // namespace softmax::server
