// Floods of HTTP/2 frames from one connection: the server ends it, and hardly anybody else notices.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <vector>

#include "tests/end_to_end/floods.h"
#include "tests/end_to_end/good_client.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/environment.h"

namespace softmax::testing {
namespace {

using Clock = std::chrono::steady_clock;

// The flood's share of one loopback connection, as fast as it can be sent; SOFTMAX_TEST_FLOOD_CONNECTIONS=8 is the long
// form.
int Connections() {
  const char* const number = std::getenv("SOFTMAX_TEST_FLOOD_CONNECTIONS");
  return number == nullptr ? 1 : std::atoi(number);
}

// AddressSanitizer keeps freed memory back, and makes the server too slow for as many calls as time forgives.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kEndsFloods = false;
constexpr std::int64_t kFloodMayGrow = INT64_MAX;
#else
constexpr bool kEndsFloods = true;
constexpr std::int64_t kFloodMayGrow = 32ll << 20;
#endif
constexpr double kSlow = 3;  // alone on two cores: 0.12
constexpr std::chrono::seconds kFloodFor(kEndsFloods ? 10 : 2);

class Floods : public ::testing::TestWithParam<Attack> {};

TEST_P(Floods, EndWithTheirConnection) {
  const Attack& attack = GetParam();
  ServerProcess server({"--backend=cpu"});
  GoodClient good(server.target(), /*may_fail=*/!kEndsFloods);
  EXPECT_TRUE(good.IsUnderWay());
  const std::int64_t before = server.ResidentBytes();
  std::vector<std::future<std::optional<Clock::duration>>> floods;
  for (int i = 0; i < Connections(); ++i) {
    floods.push_back(std::async(std::launch::async, [&] { return Flood(server.target(), attack, kFloodFor); }));
  }
  double slowest = 0;
  for (auto& flood : floods) {
    const auto ended = flood.get();
    if (!kEndsFloods && !ended) continue;
    ASSERT_TRUE(ended.has_value()) << "the flood goes on";
    slowest = std::max(slowest, std::chrono::duration<double>(*ended).count());
    EXPECT_LT(slowest, kSlow);
  }
  EXPECT_LT(server.PeakResidentBytes() - before, kFloodMayGrow * Connections());
  if (kEndsFloods && !attack.grpc_ends_it) {
    EXPECT_TRUE(server.LogComesToHave("ending connection ")) << server.Log();
  }
  const double p99 = good.P99Ms();
  RecordProperty("good_p99_ms", std::to_string(p99));
  if (IsOn("SOFTMAX_TEST_PRINT")) {
    std::printf("%-60s ended after %5.3f s, good p99 %6.2f ms, grew %4.1f MiB\n", attack.name.c_str(), slowest, p99,
                static_cast<double>(server.PeakResidentBytes() - before) / (1 << 20));
  }
  // SIGTERM ends it in time, whatever is left of the flood.
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(10000), 0) << server.Log();
}

INSTANTIATE_TEST_SUITE_P(Attacks, Floods, ::testing::ValuesIn(Attacks()), [](const auto& info) {
  std::string name = info.param.name;
  name.erase(
      std::remove_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }),
      name.end());
  return name;
});

}  // namespace
}  // namespace softmax::testing
