#include "common/base/address.h"

#include <gtest/gtest.h>

namespace softmax {
namespace {

struct Pieces {
  const char* text;
  const char* host;
  const char* port;
  bool in_brackets;
};

TEST(SplitHostPort, CutsAtTheLastColonAndTakesBracketsOff) {
  for (const Pieces& want : {Pieces{"localhost:50051", "localhost", "50051", false},
                             {"0.0.0.0:0", "0.0.0.0", "0", false},
                             {"[::1]:2", "::1", "2", true},
                             {"[]:2", "", "2", true},
                             {"::1:2", "::1", "2", false},
                             {"[::1:2", "[::1", "2", false},
                             {"[:2", "[", "2", false},
                             {"]:2", "]", "2", false},
                             {"host:", "host", "", false},
                             {"host:http", "host", "http", false}}) {
    const auto pieces = SplitHostPort(want.text);
    ASSERT_TRUE(pieces) << want.text;
    EXPECT_EQ(pieces->host, want.host) << want.text;
    EXPECT_EQ(pieces->port, want.port) << want.text;
    EXPECT_EQ(pieces->in_brackets, want.in_brackets) << want.text;
  }
}

TEST(SplitHostPort, NeedsAColonWithSomethingBeforeIt) {
  for (const char* text : {"", "localhost", ":", ":50051"}) EXPECT_FALSE(SplitHostPort(text)) << text;
}

TEST(ParsePort, TakesWholeNumbersOfSixteenBits) {
  EXPECT_EQ(ParsePort("0"), 0);
  EXPECT_EQ(ParsePort("50051"), 50051);
  EXPECT_EQ(ParsePort("65535"), 65535);
  for (const char* text : {"", "65536", "-1", "1x", " 1", "1 ", "0x10", "http", "99999999999999999999"}) {
    EXPECT_FALSE(ParsePort(text)) << text;
  }
}

TEST(UnixPath, IsAllThatFollowsTheScheme) {
  EXPECT_EQ(UnixPath("unix:/run/a:b"), "/run/a:b");
  EXPECT_EQ(UnixPath("unix:"), "");
  for (const char* text : {"", "/run/a", "localhost:1", "unix"}) EXPECT_FALSE(UnixPath(text)) << text;
}

}  // namespace
}  // namespace softmax
