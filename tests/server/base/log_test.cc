#include "server/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>

namespace softmax::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// What `log` writes to stderr.
template <typename F>
std::string Written(F log) {
  ::testing::internal::CaptureStderr();
  log();
  FlushLogging();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Logging, WritesTextLinesWithTimeLevelAndThread) {
  ASSERT_TRUE(InitLogging("info", "text").ok());
  const std::string line = Written([] { LogWarning(8192, " slabs"); });
  EXPECT_THAT(line, MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                                 "warning \\[[0-9]+\\] 8192 slabs\n"));
}

TEST(Logging, WritesJsonThatAMessageCannotBreak) {
  ASSERT_TRUE(InitLogging("info", "json").ok());
  const std::string line = Written([] { LogError("a \"b\" \\ \n\r\t\x01\x7f \xff\xc0\xaf gr\xc3\xbcn ", "}"); });
  EXPECT_THAT(line, MatchesRegex("\\{\"time\":\"[-0-9T:.]+Z\",\"level\":\"error\",\"thread\":[0-9]+,"
                                 "\"message\":\".*\"\\}\n"));
  EXPECT_THAT(line, HasSubstr(R"("message":"a \"b\" \\ \n\r\t\u0001\u007f \ufffd\ufffd\ufffd gr)"
                              "\xc3\xbcn }\"}\n"));
}

TEST(Logging, FieldsStandBesideTheMessageAndCannotBeForged) {
  const std::vector<LogField> fields = {{"request_id", 7}, {"peer", "a\" b=\"c\n"}};
  ASSERT_TRUE(InitLogging("info", "text").ok());
  EXPECT_THAT(Written([&] { LogWarning("slow x=1", fields); }),
              HasSubstr("] slow x=1 request_id=7 peer=\"a\\\" b=\\\"c\\n\"\n"));
  ASSERT_TRUE(InitLogging("info", "json").ok());
  EXPECT_THAT(Written([&] { LogWarning("slow", fields); }),
              HasSubstr(R"("message":"slow","request_id":7,"peer":"a\" b=\"c\n"})"));
  EXPECT_THAT(Written([] { LogInfo("next"); }), HasSubstr("\"message\":\"next\"}\n"));
}

TEST(Logging, StepsThroughTheLevels) {
  ASSERT_TRUE(InitLogging("info", "text").ok());
  EXPECT_EQ(StepLogLevel(/*more=*/true), "debug");
  EXPECT_EQ(StepLogLevel(true), "trace");
  EXPECT_EQ(StepLogLevel(true), "trace");
  for (const char* level : {"debug", "info", "warning", "error", "error"}) EXPECT_EQ(StepLogLevel(false), level);
}

TEST(Logging, OneMessageIsOneLineInTextToo) {
  ASSERT_TRUE(InitLogging("info", "text").ok());
  const std::string line = Written([] { LogInfo("id\n2026-01-01T00:00:00.000Z info [1] forged \x1b[31m"); });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, HasSubstr("id\\n2026"));
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
}

TEST(Logging, BoundsWhatAStrangerMakesItSay) {
  ASSERT_TRUE(InitLogging("info", "text").ok());
  const std::string line = Written([] { LogInfo(std::string(15000, 'x')); });
  EXPECT_LT(line.size(), 4400u);
  EXPECT_THAT(line, HasSubstr("x... (10904 bytes more)\n"));
  const std::vector<LogField> fields = {{"peer", std::string(15000, 'y')}};
  EXPECT_LT(Written([&] { LogWarning("slow", fields); }).size(), 800u);
}

TEST(Logging, ReplacesTruncatedAndForbiddenUtf8) {
  ASSERT_TRUE(InitLogging("info", "json").ok());
  // Cut in the middle, a surrogate, beyond U+10FFFF, over-long.
  for (const char* bad : {"\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80"}) {
    const std::string line = Written([&] { LogInfo("<", bad, ">"); });
    EXPECT_THAT(line, HasSubstr("<\\ufffd"));
    for (const char c : line) {
      EXPECT_EQ(static_cast<unsigned char>(c) & 0x80, 0);
    }
  }
  EXPECT_THAT(Written([] { LogInfo("\xe2\x82\xac \xf0\x9f\x98\x80"); }), HasSubstr("\xe2\x82\xac \xf0\x9f\x98\x80"));
}

TEST(Logging, PrintsNothingBelowTheLevel) {
  ASSERT_TRUE(InitLogging("warning", "text").ok());
  EXPECT_EQ(Written([] { LogInfo("quiet"); }), "");
  EXPECT_THAT(Written([] { LogWarning("loud"); }), HasSubstr("loud"));
  ASSERT_TRUE(InitLogging("off", "text").ok());
  EXPECT_EQ(Written([] { LogError("quiet"); }), "");
}

TEST(Logging, RefusesUnknownLevelsAndFormats) {
  EXPECT_THAT(std::string(InitLogging("loud", "text").message()), HasSubstr("'loud'"));
  EXPECT_THAT(std::string(InitLogging("info", "xml").message()), HasSubstr("'xml'"));
}

// Runs in a child, whose stderr is `fd`; -1: closed.
void LogTo(int fd) {
  if (!InitLogging("info", "text").ok()) _exit(3);
  close(STDERR_FILENO);
  if (fd >= 0) dup2(fd, STDERR_FILENO);
  for (int i = 0; i < 100; ++i) {
    LogError("nobody reads this ", i);
  }
  std::exit(0);
}

TEST(LoggingDeathTest, LivesOnWhereNobodyTakesItsLines) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  for (const int fd : {ends[1], full, -1}) EXPECT_EXIT(LogTo(fd), ::testing::ExitedWithCode(0), "") << fd;
  close(ends[1]);
  close(full);
}

// A pipe that somebody holds open and does not read: it takes 64 KiB, and a write of more waits for ever.
TEST(LoggingDeathTest, NeitherLoggingNorTheEndWaitsForAReaderThatNeverReads) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto log_and_leave = [&] {
    alarm(60);  // ends a wait, not a slow machine
    if (!InitLogging("info", "text").ok()) _exit(3);
    dup2(ends[1], STDERR_FILENO);
    // Fills the pipe and the 4 MiB of lines that wait.
    for (int i = 0; i < 5000; ++i) LogError("nobody reads this ", i, std::string(1000, 'x'));
    std::exit(0);
  };
  EXPECT_EXIT(log_and_leave(), ::testing::ExitedWithCode(0), "");
  close(ends[0]);
  close(ends[1]);
}

TEST(LoggingDeathTest, TheLastWordsBeforeAnAbortAreWritten) {
  const auto log_and_abort = [] {
    if (!InitLogging("info", "text").ok()) _exit(3);
    for (int i = 0; i < 300; ++i) LogError("words");  // which keep the thread that writes busy
    LogError("last words");
    std::abort();
  };
  EXPECT_EXIT(log_and_abort(), ::testing::KilledBySignal(SIGABRT), "last words");
}

}  // namespace
}  // namespace softmax::server
