#include "common/base/shortage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace softmax {
namespace {

using ::testing::HasSubstr;

TEST(Shortage, WhatIsThereIsNoShortage) {
  EXPECT_EQ(ThreadShortage(GrpcThreads()), "");
  EXPECT_EQ(DescriptorShortage(20), "");
}

TEST(Shortage, DescriptorsAreNamedWithWhatWasAskedForAndTheLimit) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{40, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  const std::string said = DescriptorShortage(100);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(said, HasSubstr("100 file descriptors are needed and only "));
  EXPECT_THAT(said, HasSubstr("descriptors of a process: 40 (ulimit -n)"));
  EXPECT_EQ(DescriptorShortage(20), "");
}

}  // namespace
}  // namespace softmax
