#include "client/softmax_client/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softmax::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> TargetsOf(const std::string& target) {
  const auto addresses = ParseTarget(target);
  std::vector<std::string> targets;
  EXPECT_TRUE(addresses.ok()) << addresses.status();
  if (!addresses.ok()) return targets;
  for (const Address& address : *addresses) targets.push_back(address.target);
  return targets;
}

TEST(TargetTest, OneAddressIsTakenAsItIs) {
  for (const char* target :
       {"localhost:50051", "[::1]:1", "dns:///softmax.internal:50051", "dns:host:1", "unix:/run/s.sock",
        "unix:///run/s.sock", "unix-abstract:name", "ipv4:10.0.0.1:65535", "ipv6:[::1]:1"}) {
    EXPECT_THAT(TargetsOf(target), ElementsAre(target));
  }
  EXPECT_TRUE((*ParseTarget("dns:///host:1"))[0].by_name);
  EXPECT_FALSE((*ParseTarget("host:1"))[0].by_name);
  for (const char* name : {"host:1", "dns:///host:1", "dns://10.0.0.1:53/host:1"}) {
    EXPECT_TRUE((*ParseTarget(name))[0].is_name) << name;
  }
  for (const char* number : {"10.0.0.1:1", "[::1]:1", "[fe80::1%eth0]:1", "dns:///10.0.0.1:1", "ipv4:10.0.0.1:1",
                             "ipv6:[::1]:1", "unix:/host:1"}) {
    EXPECT_FALSE((*ParseTarget(number))[0].is_name) << number;
  }
  EXPECT_TRUE((*ParseTarget("unix:/path"))[0].is_local);
  EXPECT_FALSE((*ParseTarget("localhost:1"))[0].is_local);
}

TEST(TargetTest, AListIsSplitAndItsSchemeGoesOn) {
  EXPECT_THAT(TargetsOf("ipv4:10.0.0.1:1,10.0.0.2:2"), ElementsAre("ipv4:10.0.0.1:1", "ipv4:10.0.0.2:2"));
  EXPECT_THAT(TargetsOf("ipv6:[::1]:1,[::2]:2"), ElementsAre("ipv6:[::1]:1", "ipv6:[::2]:2"));
  EXPECT_THAT(TargetsOf("a:1,unix:/b,dns:///c:3,d:4"), ElementsAre("a:1", "unix:/b", "dns:///c:3", "d:4"));
  EXPECT_THAT(TargetsOf("ipv4:10.0.0.1:1,unix:/b,c:3"), ElementsAre("ipv4:10.0.0.1:1", "unix:/b", "c:3"));
}

TEST(TargetTest, WhatCannotBeAnAddressIsNamed) {
  const auto message = [](const std::string& target) {
    const auto addresses = ParseTarget(target);
    EXPECT_EQ(addresses.status().code(), absl::StatusCode::kInvalidArgument) << target;
    return std::string(addresses.status().message());
  };
  EXPECT_THAT(message(""), HasSubstr("empty"));
  EXPECT_THAT(message("a:1,,b:2"), HasSubstr("empty address"));
  EXPECT_THAT(message("localhost"), HasSubstr("'localhost' has no port"));
  EXPECT_THAT(message("localhost:0"), HasSubstr("no port"));
  EXPECT_THAT(message("localhost:65536"), HasSubstr("no port"));
  EXPECT_THAT(message(":50051"), HasSubstr("no port"));
  EXPECT_THAT(message("a:1,dns:///host"), HasSubstr("'dns:///host' has no port"));
  EXPECT_THAT(message("unix:"), HasSubstr("no path"));
  EXPECT_THAT(message("dns://host:1"), HasSubstr("'dns://host:1' names a DNS server only; write dns:///host:port"));
  EXPECT_TRUE(ParseTarget("dns://10.0.0.1/host:1").ok());
  EXPECT_THAT(message("http://localhost:1"), HasSubstr("must be host:port"));
}

}  // namespace
}  // namespace softmax::client
