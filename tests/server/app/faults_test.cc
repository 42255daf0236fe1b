#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/app/parts.h"

namespace softmax::server {
namespace {

using ::testing::HasSubstr;

TEST(ParseFaultsTest, ReadsEveryKind) {
  const auto faults = ParseFaults(
      "devices:4,error:5,sticky:6@1,hang:7@0,late:5ms@3,late:1us,alloc:2,slabs:16,cuda:cudaMalloc:3,cuda:kernel:1:700");
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_TRUE(faults->any());
  EXPECT_EQ(faults->devices, 4u);
  EXPECT_EQ(faults->allocation, 2u);
  EXPECT_EQ(faults->slabs_left, 16u);
  ASSERT_EQ(faults->launches.size(), 5u);
  EXPECT_EQ(faults->launches[0].device, LaunchFault::kAnyDevice);
  EXPECT_EQ(faults->launches[1].kind, LaunchFault::Kind::kSticky);
  EXPECT_EQ(faults->launches[1].launch, 6u);
  EXPECT_EQ(faults->launches[1].device, 1);
  EXPECT_EQ(faults->launches[2].kind, LaunchFault::Kind::kHang);
  EXPECT_EQ(faults->launches[3].delay, std::chrono::milliseconds(5));
  ASSERT_EQ(faults->calls.size(), 2u);
  EXPECT_EQ(faults->calls[0].call, "cudaMalloc");
  EXPECT_EQ(faults->calls[0].number, 3u);
  EXPECT_EQ(faults->calls[0].error, 999);
  EXPECT_EQ(faults->calls[1].error, 700);
}

TEST(ParseFaultsTest, NoneIsNone) {
  const auto faults = ParseFaults("none");
  ASSERT_TRUE(faults.ok());
  EXPECT_FALSE(faults->any());
}

TEST(ParseFaultsTest, NamesWhatIsWrong) {
  for (const char* item :
       {"", "explode:1", "hang", "hang:0", "hang:1@", "hang:1@64", "late:", "late:5", "devices:0", "devices:65",
        "alloc:", "slabs:-1", "cuda:", "cuda:cudaMalloc", "cuda::1", "cuda:x:1:0", "cuda:x:1:2:3"}) {
    const auto faults = ParseFaults(std::string("devices:2,") + item);
    ASSERT_TRUE(absl::IsInvalidArgument(faults.status())) << item;
    EXPECT_THAT(std::string(faults.status().message()), HasSubstr(std::string("--fault=devices:2,") + item + ": "));
  }
}

}  // namespace
}  // namespace softmax::server
