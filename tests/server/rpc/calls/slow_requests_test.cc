#include "server/rpc/calls/slow_requests.h"

#include <gtest/gtest.h>

#include <string>

namespace softmax::server {
namespace {

// W3C Trace Context, "traceparent Header".
TEST(Traceparent, IsTakenByTheRulesOfW3c) {
  const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const struct {
    const char* what;
    std::string sent;
    std::string taken;
  } cases[] = {
      {"as it should be", good, good},
      {"not sampled, unknown flags", good.substr(0, 53) + "fe", good.substr(0, 53) + "fe"},
      {"a later version", "01" + good.substr(2), "01" + good.substr(2)},
      {"a later version with more", "cc" + good.substr(2) + "-what-the-future-will-be", "cc" + good.substr(2)},
      {"a later version with more, without a dash", "cc" + good.substr(2) + ".more", ""},
      {"version 00 with more", good + "-more", ""},
      {"version ff", "ff" + good.substr(2), ""},
      {"a trace id of zeros", "00-00000000000000000000000000000000-b7ad6b7169203331-01", ""},
      {"a parent id of zeros", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", ""},
      {"upper case", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", ""},
      {"too short", good.substr(0, 54), ""},
      {"no dash", "00_" + good.substr(3), ""},
      {"nothing", "", ""},
  };
  for (const auto& c : cases) {
    ClientMetadata metadata;
    metadata.emplace("traceparent", c.sent);
    EXPECT_EQ(TraceparentOf(metadata), c.taken) << c.what;
  }
  ClientMetadata twice;
  twice.emplace("traceparent", good);
  twice.emplace("traceparent", good);
  EXPECT_EQ(TraceparentOf(twice), "");
  EXPECT_EQ(TraceparentOf(ClientMetadata()), "");
}

}  // namespace
}  // namespace softmax::server
