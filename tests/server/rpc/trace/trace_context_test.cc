#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/traceparent.h"
#include "server/rpc/trace/span_queue.h"

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
    EXPECT_EQ(CheckedTraceparent(c.sent), c.taken) << c.what;
    EXPECT_EQ(ParseTraceparent(c.sent).has_value(), !c.taken.empty()) << c.what;
  }
  const auto context = ParseTraceparent(good);
  EXPECT_EQ(std::string(context->place.trace_id.begin(), context->place.trace_id.end()),
            std::string("\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", 16));
  EXPECT_EQ(std::string(context->place.span_id.begin(), context->place.span_id.end()),
            std::string("\xb7\xad\x6b\x71\x69\x20\x33\x31", 8));
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(ParseTraceparent(good.substr(0, 53) + "02")->sampled);
}

struct FakeCall {
  const ClientMetadata& client_metadata() const { return metadata; }
  ClientMetadata metadata;
};

TEST(Traceparent, CountsWhereItCameOnce) {
  FakeCall call;
  EXPECT_EQ(OnlyValue(call, "traceparent"), "");
  call.metadata.emplace("traceparent", "one");
  EXPECT_EQ(OnlyValue(call, "traceparent"), "one");
  call.metadata.emplace("traceparent", "two");
  EXPECT_EQ(OnlyValue(call, "traceparent"), "");
}

// W3C Trace Context, "tracestate Header".
TEST(Tracestate, IsTakenByTheRulesOfW3c) {
  std::string many = "k0=v";
  for (int i = 1; i < 32; ++i) many += ",k" + std::to_string(i) + "=v";
  const struct {
    const char* what;
    std::vector<std::string> sent;
    std::string taken;
  } cases[] = {
      {"nothing", {}, ""},
      {"as it should be", {"congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"}, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"},
      {"in two headers", {"a=1", "b=2"}, "a=1,b=2"},
      {"blanks and empty members", {" a=1 ,, b=2\t"}, "a=1,b=2"},
      {"of a tenant", {"fw529a3039@dt=FfAQ"}, "fw529a3039@dt=FfAQ"},
      {"32 members", {many}, many},
      {"33 members", {many + ",last=v"}, ""},
      {"more than 512 bytes",
       {"a=" + std::string(250, 'x'), "b=" + std::string(250, 'x'), "c=" + std::string(20, 'x')},
       ""},
      {"a key twice", {"a=1,a=2"}, ""},
      {"an upper-case key", {"A=1"}, ""},
      {"no value", {"a="}, ""},
      {"no key", {"=1"}, ""},
      {"an equals sign in a value", {"a=1=2"}, ""},
  };
  for (const auto& c : cases) {
    ClientMetadata metadata;
    for (const std::string& value : c.sent) metadata.emplace("tracestate", value);
    EXPECT_EQ(TraceStateOf(metadata), c.taken) << c.what;
  }
}

}  // namespace
}  // namespace softmax::server
