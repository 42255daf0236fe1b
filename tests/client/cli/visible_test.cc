#include "client/cli/visible.h"

#include <gtest/gtest.h>

namespace softmax::client {
namespace {

TEST(VisibleTest, WhatCanBeSeenStays) {
  for (const char* text : {"", "plain, with blanks", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "back\\slash"}) {
    EXPECT_EQ(Visible(text), text);
  }
}

TEST(VisibleTest, WhatCannotIsNamed) {
  EXPECT_EQ(Visible("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(Visible(std::string("\0\x1b\x07\x7f", 4)), "\\x00\\x1b\\x07\\x7f");
  EXPECT_EQ(Visible("\xef\xbb\xbf"
                    "1\xc2\x85\xe2\x80\xa8\xe2\x81\xa6"),
            "<U+FEFF>1<U+0085><U+2028><U+2066>");
}

TEST(VisibleTest, BrokenUtf8IsNamedByteByByte) {
  EXPECT_EQ(Visible("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Visible("\xc3"), "\\xc3");
  EXPECT_EQ(Visible("\xe2\x82"
                    "a"),
            "\\xe2\\x82a");
  EXPECT_EQ(Visible("\xc0\x80\xe0\x80\x80\xf0\x80\x80\x80"), "\\xc0\\x80\\xe0\\x80\\x80\\xf0\\x80\\x80\\x80");
  EXPECT_EQ(Visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace softmax::client
