#include "common/base/text_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace softmax {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

class TextFileTest : public testing::Test {
 protected:
  ~TextFileTest() override { std::remove(path_.c_str()); }

  std::string Read(const std::string& bytes, std::string* problem = nullptr, std::size_t most = kMostBytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    std::string text;
    const std::string wrong = ReadTextFile(path_, most, &text);
    if (problem != nullptr) *problem = wrong;
    EXPECT_TRUE(wrong.empty() || problem != nullptr) << wrong;
    return text;
  }

  void ExpectRefused(const std::string& path, const std::string& words) {
    std::string text;
    EXPECT_NE(ReadTextFile(path, kMostBytes, &text).find(words), std::string::npos) << path;
  }

  const std::string path_ = testing::TempDir() + "text_file_test";
};

TEST_F(TextFileTest, LineEndsOfEverySystemAreOne) {
  EXPECT_EQ(Read("a\nb\n"), "a\nb\n");
  EXPECT_EQ(Read("a\r\nb\r\n"), "a\nb\n");
  EXPECT_EQ(Read("a\rb\r"), "a\nb\n");
  EXPECT_EQ(Read("a\r\r\nb\n\rc"), "a\n\nb\n\nc");
  EXPECT_EQ(Read(""), "");
}

TEST_F(TextFileTest, AByteOrderMarkIsNoText) {
  EXPECT_EQ(Read("\xef\xbb\xbf"
                 "1\n"),
            "1\n");
  EXPECT_EQ(Read("\xef\xbb\xbf"), "");
}

TEST_F(TextFileTest, TextThatIsNoUtf8IsNamed) {
  std::string problem;
  Read(std::string("\xff\xfe"
                   "1\0",
                   4),
       &problem);
  EXPECT_EQ(problem, "is UTF-16; save it as UTF-8");
  Read(std::string("\xfe\xff\0001", 4), &problem);
  EXPECT_EQ(problem, "is UTF-16; save it as UTF-8");
  Read(std::string("1\0\n\0", 4), &problem);
  EXPECT_NE(problem.find("zero bytes"), std::string::npos) << problem;
}

TEST_F(TextFileTest, WhatIsNoFileIsRefusedAndNotWaitedFor) {
  ExpectRefused(testing::TempDir(), "a folder");
  ExpectRefused("/dev/zero", "a device");
  ExpectRefused("/nonexistent/file", "No such file");
  ExpectRefused("", "No such file");
  const std::string pipe_path = path_ + ".pipe";
  ASSERT_EQ(mkfifo(pipe_path.c_str(), 0600), 0);
  ExpectRefused(pipe_path, "a pipe");
  unlink(pipe_path.c_str());
}

TEST_F(TextFileTest, ALinkToAFileIsAFile) {
  const std::string link_path = path_ + ".link";
  Read("a\n");
  ASSERT_EQ(symlink(path_.c_str(), link_path.c_str()), 0);
  std::string text;
  EXPECT_EQ(ReadTextFile(link_path, kMostBytes, &text), "");
  EXPECT_EQ(text, "a\n");
  unlink(link_path.c_str());
}

TEST_F(TextFileTest, TheSizeIsLimited) {
  std::string problem;
  EXPECT_EQ(Read("12345", &problem, 5), "12345");
  EXPECT_EQ(problem, "");
  Read("123456", &problem, 5);
  EXPECT_EQ(problem, "has more than 5 bytes, the most that are read");
}

}  // namespace
}  // namespace softmax
