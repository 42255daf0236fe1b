#include "common/base/core_set.h"

#include <gtest/gtest.h>

#include <thread>

namespace softmax {
namespace {

CoreSet Set(std::initializer_list<std::size_t> numbers) {
  CoreSet cores;
  for (const std::size_t number : numbers) cores.set(number);
  return cores;
}

TEST(CoreSet, IsReadAndWrittenAsSysHasIt) {
  EXPECT_EQ(ParseCores("0-3,8"), Set({0, 1, 2, 3, 8}));
  EXPECT_EQ(ParseCores("5\n"), Set({5}));
  EXPECT_EQ(ParseCores("1022-1023"), Set({1022, 1023}));
  for (const char* text : {"0", "0-3,8", "1,3,5-6", "1023"}) EXPECT_EQ(FormatCores(ParseCores(text)), text);
  EXPECT_EQ(FormatCores({}), "");
}

TEST(CoreSet, WhatIsNoListIsNothing) {
  for (const char* text :
       {"", "\n", "x", "-1", "3-1", "0-", "0-x", "1;2", "0-3x", "0,,1", "1024", "0-99999999999999999999"}) {
    EXPECT_TRUE(ParseCores(text).none()) << text;
  }
}

TEST(CoreSet, AVisitEndsWhereItBegan) {
  std::thread([] {
    const CoreSet before = CoresOfThread();
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    EXPECT_EQ(before.count(), static_cast<std::size_t>(CPU_COUNT(&mask)));
    CoreSet one;
    one.set(before._Find_first());
    {
      const VisitCores there(one);
      EXPECT_EQ(CoresOfThread(), one);
      const VisitCores anywhere({});
      EXPECT_EQ(CoresOfThread(), one);
    }
    EXPECT_EQ(CoresOfThread(), before);
  }).join();
}

}  // namespace
}  // namespace softmax
