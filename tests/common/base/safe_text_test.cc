#include "common/base/safe_text.h"

#include <gtest/gtest.h>

namespace softmax {
namespace {

std::string ForPeople(const std::string& text) { return SafeText(text, TextFor::kPeople, 1000); }

TEST(SafeText, LeavesUsualTextAlone) {
  for (const char* text :
       {"", "plain", "gr\xc3\xbcn", "\xe0\xa4\x84", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "a \"b\" \\"}) {
    EXPECT_EQ(ForPeople(text), text);
  }
}

TEST(SafeText, ControlsOfBothKindsAreEscaped) {
  EXPECT_EQ(ForPeople("\n\r\t"), "\\n\\r\\t");
  EXPECT_EQ(ForPeople("\x1b[31m\x7f"), "\\u001b[31m\\u007f");
  EXPECT_EQ(ForPeople("\xc2\x80\xc2\x85\xc2\x9b\xc2\x9f"), "\\u0080\\u0085\\u009b\\u009f");
}

TEST(SafeText, LineEndsOfUnicodeAreEscaped) {
  EXPECT_EQ(ForPeople("a\xe2\x80\xa8"
                      "b\xe2\x80\xa9"),
            "a\\u2028b\\u2029");
}

TEST(SafeText, MarksOfDirectionAndWithoutWidthAreEscaped) {
  EXPECT_EQ(ForPeople("\xe2\x80\xae\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9\xe2\x80\x8f\xd8\x9c"),
            "\\u202e\\u202a\\u2066\\u2069\\u200f\\u061c");
  EXPECT_EQ(ForPeople("\xe2\x80\x8b\xef\xbb\xbf"), "\\u200b\\ufeff");
  EXPECT_EQ(ForPeople("\xc2\xa0\xe3\x80\x80\xee\x80\x80"), "\\u00a0\\u3000\\ue000");
  EXPECT_EQ(ForPeople("\xf3\xa0\x80\x81"), "\\U000e0001");
  EXPECT_EQ(SafeText("\xf3\xa0\x80\x81", TextFor::kJson, 1000), "\\udb40\\udc01");
}

TEST(SafeText, BrokenUtf8IsEscapedByteByByte) {
  EXPECT_EQ(ForPeople("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");
  EXPECT_EQ(ForPeople("\xc3"), "\\xc3");
  EXPECT_EQ(ForPeople("\xe2\x82"
                      "a"),
            "\\xe2\\x82a");
  EXPECT_EQ(ForPeople("\xe0\x80\x80\xf0\x80\x80\x80"), "\\xe0\\x80\\x80\\xf0\\x80\\x80\\x80");
  EXPECT_EQ(ForPeople("\xed\xa0\x80\xf4\x90\x80\x80"), "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(SafeText("\xff\"\\", TextFor::kJson, 1000), "\\ufffd\\\"\\\\");
}

TEST(SafeText, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(SafeText("abcdef", TextFor::kPeople, 6), "abcdef");
  EXPECT_EQ(SafeText("abcdefg", TextFor::kPeople, 6), "abcdef... (1 bytes more)");
  EXPECT_EQ(SafeText("ab\xe2\x82\xac", TextFor::kPeople, 4), "ab... (3 bytes more)");
}

TEST(SafeError, HasBothEndsOfALongText) {
  EXPECT_EQ(SafeError("a\x1b"), "a\\u001b");
  const std::string euros = [] {
    std::string text;
    for (int i = 0; i < 10'000; ++i) text += "\xe2\x82\xac";
    return text;
  }();
  const std::string error = SafeError("--x: '" + euros + "' is no number");
  EXPECT_LE(error.size(), kMostErrorBytes + 100);
  EXPECT_TRUE(IsUtf8(error));
  EXPECT_EQ(error.substr(0, 9), "--x: '\xe2\x82\xac");
  EXPECT_NE(error.find(" bytes more) ..."), std::string::npos);
  EXPECT_EQ(error.substr(error.size() - 14), "' is no number");
}

TEST(SafeText, EscapesCountAsTheyAreWritten) {
  EXPECT_EQ(SafeText("\x01\x02\x03", TextFor::kPeople, 13), "\\u0001\\u0002... (1 bytes more)");
  EXPECT_EQ(SafeText("\x01\x02", TextFor::kPeople, 12), "\\u0001\\u0002");
  EXPECT_EQ(SafeText("\"\"", TextFor::kJson, 3), "\\\"... (1 bytes more)");
}

}  // namespace
}  // namespace softmax
