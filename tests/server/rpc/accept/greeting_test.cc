#include "server/rpc/accept/greeting.h"

#include <gtest/gtest.h>

#include <string>

namespace softmax::server {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

TEST(Greeting, Http2IsRightOnlyAsAWhole) {
  for (std::size_t size = 0; size < kPreface.size(); ++size) {
    EXPECT_EQ(JudgeGreeting(Protocol::kHttp2, kPreface.substr(0, size)), Greeting::kIncomplete) << size;
  }
  EXPECT_EQ(JudgeGreeting(Protocol::kHttp2, kPreface), Greeting::kRight);
  EXPECT_EQ(JudgeGreeting(Protocol::kHttp2, std::string(kPreface) + "more"), Greeting::kRight);
}

TEST(Greeting, OneWrongByteIsSeen) {
  for (std::size_t i = 0; i < kPreface.size(); ++i) {
    std::string text(kPreface);
    text[i] = '\x01';
    EXPECT_EQ(JudgeGreeting(Protocol::kHttp2, text), Greeting::kWrong) << i;
  }
}

TEST(Greeting, Http1IsToldApart) {
  for (const char* text : {"GET / HTTP/1.1\r\n", "POST /x", "HEAD /", "OPTIONS *"}) {
    EXPECT_EQ(JudgeGreeting(Protocol::kHttp2, text), Greeting::kHttp1) << text;
  }
  EXPECT_EQ(JudgeGreeting(Protocol::kHttp2, "GETX"), Greeting::kWrong);
}

TEST(Greeting, TlsBeginsWithAHandshakeRecord) {
  EXPECT_EQ(JudgeGreeting(Protocol::kTls, ""), Greeting::kIncomplete);
  EXPECT_EQ(JudgeGreeting(Protocol::kTls, "\x16\x03\x01"), Greeting::kIncomplete);
  const std::string hello = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(32, 'r');
  EXPECT_EQ(JudgeGreeting(Protocol::kTls, hello.substr(0, hello.size() - 1)), Greeting::kIncomplete);
  EXPECT_EQ(JudgeGreeting(Protocol::kTls, hello), Greeting::kRight);
  EXPECT_EQ(JudgeGreeting(Protocol::kTls, kPreface), Greeting::kWrong);
  EXPECT_EQ(JudgeGreeting(Protocol::kHttp2, "\x16\x03\x01"), Greeting::kWrong);
}

TEST(Greeting, WhatBeginsAsATlsRecordAndIsNoClientHelloIsTurnedAway) {
  const std::string hello = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(32, 'r');
  struct Case {
    std::size_t at;
    char byte;
    const char* what;
  };
  for (const Case& bad : {Case{0, 0x17, "another record"}, Case{1, 2, "another protocol"}, Case{5, 2, "a ServerHello"},
                          Case{9, 0x7f, "a version that never was"}, Case{3, 0x7f, "a record above 16 KiB"}}) {
    std::string bytes = hello;
    bytes[bad.at] = bad.byte;
    EXPECT_EQ(JudgeGreeting(Protocol::kTls, bytes), Greeting::kWrong) << bad.what;
  }
  std::string shorter = hello;  // than what every hello has
  shorter[3] = 0;
  shorter[4] = 37;
  EXPECT_EQ(JudgeGreeting(Protocol::kTls, shorter), Greeting::kWrong);
  shorter[4] = 38;
  EXPECT_EQ(JudgeGreeting(Protocol::kTls, shorter), Greeting::kRight);
  EXPECT_EQ(JudgeGreeting(Protocol::kTls, "\x16\x03\x01" + std::string(60, 'z')), Greeting::kWrong);
  for (std::size_t size = 1; size < hello.size(); ++size) {
    EXPECT_EQ(JudgeGreeting(Protocol::kTls, hello.substr(0, size)), Greeting::kIncomplete) << size;
  }
}

}  // namespace
}  // namespace softmax::server
