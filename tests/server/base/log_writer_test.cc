#include "server/base/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>

namespace softmax::server {
namespace {

class LogWriterTest : public ::testing::Test {
 protected:
  LogWriterTest() { EXPECT_EQ(pipe(ends_), 0); }
  ~LogWriterTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  // All that the pipe holds now.
  std::string Read() {
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    char block[1 << 16];
    for (ssize_t size = 0; (size = read(ends_[0], block, sizeof(block))) > 0;) text.append(block, size);
    fcntl(ends_[0], F_SETFL, 0);
    return text;
  }

  static std::string LostLine(std::uint64_t lost) { return std::to_string(lost) + " lost\n"; }

  int ends_[2];
};

TEST_F(LogWriterTest, WritesLinesInTheirOrder) {
  LogWriter writer(ends_[1], 1 << 20, LostLine);
  writer.Add("a\n");
  writer.Add("b\n");
  writer.Flush();
  EXPECT_EQ(Read(), "a\nb\n");
}

TEST_F(LogWriterTest, TheOldestLinesGiveWayAndThatIsSaid) {
  const auto begin = std::chrono::steady_clock::now();
  {
    LogWriter writer(ends_[1], 1000, LostLine);
    // Fills the pipe, so that the thread hangs in its write.
    writer.Add(std::string(1 << 20, 'x'));
    char first;
    ASSERT_EQ(read(ends_[0], &first, 1), 1);
    for (int i = 0; i < 1000; ++i) writer.Add("line " + std::to_string(1000 + i) + "\n");
    std::string text;
    while (text.find("line 1999\n") == std::string::npos) text += Read();
    EXPECT_NE(text.find("900 lost\nline 1900\n"), std::string::npos) << text.substr(text.find('l'));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(LogWriterTest, ItsEndDoesNotWaitForAReaderThatNeverReads) {
  const auto begin = std::chrono::steady_clock::now();
  // Left open: the thread goes on with it.
  const int fd = dup(ends_[1]);
  { LogWriter(fd, 1 << 20, LostLine).Add(std::string(1 << 20, 'x')); }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(LogWriterTest, WhatWasAddedIsWrittenBeforeItsEndWhichDoesNotWaitThen) {
  std::chrono::steady_clock::duration least = std::chrono::hours(1);
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    { LogWriter(ends_[1], 1 << 20, LostLine).Add("last\n"); }
    least = std::min(least, std::chrono::steady_clock::now() - begin);
    EXPECT_EQ(Read(), "last\n");
  }
  EXPECT_LT(least, std::chrono::milliseconds(900));
}

TEST_F(LogWriterTest, LeavesTheProgramsSignalsAlone) {
  void (*const own)(int) = [](int) {};
  void (*const before)(int) = std::signal(SIGFPE, own);
  LogWriter(ends_[1], 1 << 20, LostLine).FlushBeforeDeath();
  EXPECT_EQ(std::signal(SIGFPE, before), own);
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

}  // namespace
}  // namespace softmax::server
