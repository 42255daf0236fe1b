#include "server/config/values.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace softmax::server {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> Count(const std::string& text) {
  std::uint64_t value = 0;
  return ParseCount(text, {0, kMost}, &value).empty() ? std::optional(value) : std::nullopt;
}

TEST(Values, APortAloneIsOnEveryAddressOfTheMachinesFamilies) {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(WithHost(":50051"), fd < 0 ? "0.0.0.0:50051" : "[::]:50051");
  if (fd >= 0) close(fd);
  EXPECT_EQ(WithHost("host:50051"), "host:50051");
}

TEST(Values, AListOfDevicesTakesThePlaceOfAnEarlierOne) {
  std::vector<std::uint32_t> ordinals = {7};
  EXPECT_EQ(ParseOrdinals("0,1", &ordinals), "");
  EXPECT_EQ(ordinals, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(ParseOrdinals("all", &ordinals), "");
  EXPECT_EQ(ordinals, std::vector<std::uint32_t>());
}

TEST(Values, ADurationHasAtMostAHundredDays) {
  std::chrono::nanoseconds time{};
  EXPECT_EQ(ParseDuration("2400h", &time), "");
  EXPECT_EQ(time, std::chrono::hours(2400));
  EXPECT_EQ(ParseDuration("8640000001ms", &time), "'8640000001ms' is more than 100 days");
}

TEST(Values, WholeNumbersMayHaveAnExponent) {
  EXPECT_EQ(Count("1e+06"), 1'000'000u);
  EXPECT_EQ(Count("5e8"), 500'000'000u);
  EXPECT_EQ(Count("5.36870912e+08"), 536'870'912u);
  EXPECT_EQ(Count("1.50e1"), 15u);
  EXPECT_EQ(Count("1.0e0"), 1u);
  EXPECT_EQ(Count("0e0"), 0u);
  EXPECT_EQ(Count("18446744073709551615"), kMost);
  EXPECT_EQ(Count("1.8446744073709551615e+19"), kMost);
  for (const char* text : {"1.5e0",   "5e-1",
                           "10e-1",   "1.8446744073709551616e+19",
                           "1e20",    "1e99999999999",
                           "1e",      "e5",
                           "",        ".5e1",
                           "5.e1",    "1e5x",
                           "1e 5",    "-1e5",
                           "1e+-5",   "1e+",
                           "1.2.3e5", "0x1e5",
                           "1e5.0",   "5.0",
                           "inf",     "1E5"}) {
    EXPECT_EQ(Count(text), std::nullopt) << text;
  }
}

TEST(Values, SizesMayHaveAnExponentOrASuffix) {
  std::uint64_t bytes = 0;
  EXPECT_EQ(ParseBytes("5.36870912e+08", &bytes), "");
  EXPECT_EQ(bytes, 512u << 20);
  for (const char* text : {"1e3KiB", "5.5e0", "1e5MB"}) EXPECT_NE(ParseBytes(text, &bytes), "") << text;
}

}  // namespace
}  // namespace softmax::server
