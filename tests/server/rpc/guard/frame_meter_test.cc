#include "server/rpc/guard/frame_meter.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/eventually.h"

namespace softmax::server {
namespace {

using Verdict = FrameMeter::Verdict;

constexpr std::uint64_t kStreams = 256;
constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum Type : std::uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6, kWindow = 8, kMore = 9 };
constexpr std::uint8_t kEndStream = 1;
constexpr std::uint8_t kAck = 1;
constexpr std::uint8_t kEndHeaders = 4;

std::string Frame(Type type, std::uint8_t flags, std::uint32_t stream, std::size_t bytes) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(bytes >> shift);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame + std::string(bytes, '\xff');
}

class FrameMeterTest : public ::testing::Test {
 protected:
  FrameMeterTest() { Begin(SteadyClock::now()); }
  void Begin(TimePoint since) {
    meter_ = FrameMeter(kStreams, earnings_, since);
    EXPECT_EQ(meter_.Take(kPreface), Verdict::kFine);
    Take(Frame(kSettings, 0, 0, 6));
  }
  Verdict Take(const std::string& bytes) { return meter_.Take(bytes); }
  // A unary call as clients send it.
  Verdict Call(std::size_t message) {
    next_stream_ += 2;
    const Verdict verdict = Take(Frame(kHeaders, kEndHeaders, next_stream_, 50));
    return verdict != Verdict::kFine ? verdict : Take(Frame(kData, kEndStream, next_stream_, message));
  }
  void Finish(std::uint64_t calls) {
    earnings_.calls += calls;
    earnings_.frames += calls * FrameMeter::kFramesPerCall;
  }
  // How many of these pass, at most `most`.
  int Passed(const std::string& frame, int most) {
    int passed = 0;
    while (passed < most && Take(frame) == Verdict::kFine) ++passed;
    return passed;
  }

  Earnings earnings_;
  FrameMeter meter_{kStreams, earnings_, SteadyClock::now()};
  std::uint32_t next_stream_ = 0xffffffff;  // the first is 1
};

TEST_F(FrameMeterTest, CallsThatFinishMayComeWithoutEnd) {
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_EQ(Call(64), Verdict::kFine) << i;
    if (i % 256 == 255) Finish(256);
  }
}

TEST_F(FrameMeterTest, CallsThatDoNotFinishAreLimited) {
  int calls = 0;
  while (Call(64) == Verdict::kFine) ++calls;
  EXPECT_EQ(calls, static_cast<int>(kStreams + FrameMeter::kSpareCalls));
}

TEST_F(FrameMeterTest, ACrowdThatIsTakenBackAtOnceIsNoFlood) {
  Take(Frame(kSettings, kAck, 0, 0));
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 256; ++i) {
      ASSERT_EQ(Call(4096), Verdict::kFine) << round;
      ASSERT_EQ(Take(Frame(kReset, 0, next_stream_, 4)), Verdict::kFine) << round;
    }
    Finish(256);
    testing::LetPass(std::chrono::milliseconds(70));  // the meter looks at the clock itself
  }
}

// A server that is quick to answer does not earn the forgiveness of a flood.
TEST_F(FrameMeterTest, CallsThatAreTakenBackAreLimitedThoughTheyFinish) {
  int calls = 0;
  while (Call(64) == Verdict::kFine && Take(Frame(kReset, 0, next_stream_, 4)) == Verdict::kFine) {
    ++calls;
    Finish(1);
  }
  EXPECT_GE(calls, static_cast<int>(FrameMeter::kSpareCalls));
  EXPECT_LE(calls, static_cast<int>(2 * (kStreams + FrameMeter::kSpareCalls)));
}

TEST_F(FrameMeterTest, WhoeverDoesNotAcknowledgeSettingsIsForgivenNothingByTime) {
  Begin(SteadyClock::now() - std::chrono::milliseconds(50));
  for (std::uint64_t i = 0; i < kStreams + FrameMeter::kSpareCalls; ++i) ASSERT_EQ(Call(64), Verdict::kFine);
  EXPECT_EQ(Call(64), Verdict::kCalls);
}

TEST_F(FrameMeterTest, FramesThatCarryNothingAreLimited) {
  const auto limit = static_cast<int>(FrameMeter::kSpareFrames);
  const auto reply = static_cast<int>(FrameMeter::kFramesPerReply);
  for (const auto& [frame, most] :
       {std::pair(Frame(kPing, 0, 0, 8), limit / reply),
        {Frame(kSettings, 0, 0, 0), limit / reply},
        {Frame(kWindow, 0, 0, 4), limit},
        {Frame(kData, 0, 1, 0), limit},
        {Frame(kData, 8, 1, 4096), limit},  // padded
        {Frame(kData, 0, 1, FrameMeter::kLeastRequest - 1), limit},
        {Frame(kData, 8, 1, FrameMeter::kLeastRequest), limit},
        {Frame(kData, 0, 1, FrameMeter::kLeastRequest), limit * static_cast<int>(FrameMeter::kRequestsPerFrame)},
        {Frame(static_cast<Type>(0x42), 0, 0, 1), limit}}) {
    Earnings earnings;
    FrameMeter meter(kStreams, earnings, SteadyClock::now());
    meter.Take(kPreface);
    int passed = 0;
    while (passed < 1'000'000 && meter.Take(frame) == Verdict::kFine) ++passed;
    EXPECT_GE(passed, most);
    EXPECT_LT(passed, most + most / 2) << "of type " << static_cast<int>(frame[3]);
  }
}

TEST_F(FrameMeterTest, LargeDataIsFree) {
  EXPECT_EQ(Passed(Frame(kData, 0, 1, 16384), 100'000), 100'000);
  EXPECT_EQ(Passed(Frame(kData, 0, 1, FrameMeter::kSmallData), 100'000), 100'000);
}

TEST_F(FrameMeterTest, ReadersOfLargeAnswersMayGrantWindowsForThem) {
  // 256 answers of 64 MiB at once, of which a careful client grants each 16 KiB twice.
  constexpr std::int64_t kAnswer = 64 << 20;
  earnings_.unread += 256 * kAnswer;
  for (int answer = 0; answer < 256; ++answer) {
    ASSERT_EQ(Passed(Frame(kWindow, 0, 0, 4), 2 * kAnswer / 16384), 2 * kAnswer / 16384) << answer;
    earnings_.unread -= kAnswer;
    earnings_.frames += kAnswer / FrameMeter::kBytesPerFrame;
  }
}

TEST_F(FrameMeterTest, HeadersEnd) {
  EXPECT_EQ(Take(Frame(kHeaders, 0, 1, 16384)), Verdict::kFine);
  EXPECT_EQ(Passed(Frame(kMore, 0, 1, 16384), 100), 3);
  EXPECT_EQ(Take(Frame(kMore, 0, 1, 16384)), Verdict::kHeaders);
}

TEST_F(FrameMeterTest, HeadersEndInEmptyFramesToo) {
  EXPECT_EQ(Take(Frame(kHeaders, 0, 1, 10)), Verdict::kFine);
  EXPECT_EQ(Passed(Frame(kMore, 0, 1, 0), 1000), FrameMeter::kHeaderFrames - 1);
}

TEST_F(FrameMeterTest, OneFrameOfHeadersMayNotBeLongEither) {
  EXPECT_EQ(Take(Frame(kHeaders, kEndHeaders, 1, FrameMeter::kHeaderBytes)), Verdict::kFine);
  EXPECT_EQ(Take(Frame(kHeaders, kEndHeaders, 3, FrameMeter::kHeaderBytes + 1)), Verdict::kHeaders);
}

TEST_F(FrameMeterTest, HowTheBytesArriveMakesNoDifference) {
  std::string bytes;
  for (int i = 0; i < 3000; ++i) bytes += Frame(kHeaders, kEndHeaders, 2 * i + 1, 20);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{9}, std::size_t{1000}, bytes.size()}) {
    Earnings earnings;
    FrameMeter meter(kStreams, earnings, SteadyClock::now());
    meter.Take(kPreface);
    std::size_t taken = 0;
    Verdict verdict = Verdict::kFine;
    while (taken < bytes.size() && verdict == Verdict::kFine) {
      verdict = meter.Take(std::string_view(bytes).substr(taken, piece));
      taken += piece;
    }
    EXPECT_EQ(verdict, Verdict::kCalls) << piece;
    EXPECT_LE(taken, (kStreams + FrameMeter::kSpareCalls + 1) * 29 + piece) << piece;
  }
}

}  // namespace
}  // namespace softmax::server
