#include "server/rpc/guard/frame_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>

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
    EXPECT_EQ(Take(kPreface), Verdict::kFine);
    Take(Frame(kSettings, 0, 0, 6));
  }
  Verdict Take(std::string bytes) { return meter_.Take(bytes); }
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
  // How many times this is judged to be fine, at most kMany: a limit that is none fails the test and does not hang it.
  static constexpr int kMany = 1'000'000;
  template <typename Judged>
  static int TimesFine(const Judged& judged, int most = kMany) {
    int times = 0;
    while (times < most && judged() == Verdict::kFine) ++times;
    return times;
  }
  int Passed(const std::string& frame, int most) {
    return TimesFine([&] { return Take(frame); }, most);
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
  EXPECT_EQ(TimesFine([this] { return Call(64); }), static_cast<int>(kStreams + FrameMeter::kSpareCalls));
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
  const int calls = TimesFine([this] {
    const Verdict verdict = Call(64);
    Finish(1);
    return verdict != Verdict::kFine ? verdict : Take(Frame(kReset, 0, next_stream_, 4));
  });
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
  for (auto [frame, most] :
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
    std::string preface = kPreface;
    meter.Take(preface);
    int passed = 0;
    while (passed < kMany && meter.Take(frame) == Verdict::kFine) ++passed;
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
    std::string preface = kPreface;
    meter.Take(preface);
    std::size_t taken = 0;
    Verdict verdict = Verdict::kFine;
    while (taken < bytes.size() && verdict == Verdict::kFine) {
      verdict = meter.Take(std::span(bytes).subspan(taken, std::min(piece, bytes.size() - taken)));
      taken += piece;
    }
    EXPECT_EQ(verdict, Verdict::kCalls) << piece;
    EXPECT_LE(taken, (kStreams + FrameMeter::kSpareCalls + 1) * 29 + piece) << piece;
  }
}

// A header block for a method, in full.
std::string BlockOf(const std::string& path) { return "\x04" + std::string(1, static_cast<char>(path.size())) + path; }

std::string FrameOf(Type type, std::uint8_t flags, std::uint32_t stream, const std::string& body) {
  return Frame(type, flags, stream, body.size()).substr(0, FrameHead::kBytes) + body;
}

constexpr char kUnary[] = "/softmax.v1.SoftmaxService/Softmax";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
const std::string kClaim("\0\xff\xff\xff\xff", 5);

TEST_F(FrameMeterTest, ManyHeaderFieldsCountAsCalls) {
  const auto passed = [this](std::size_t fields) {
    Begin(SteadyClock::now());
    next_stream_ = 0xffffffff;
    return TimesFine(
        [&] { return Take(FrameOf(kHeaders, kEndHeaders, next_stream_ += 2, std::string(fields, '\x82'))); });
  };
  constexpr int kMost = kStreams + FrameMeter::kSpareCalls;
  EXPECT_EQ(passed(FrameMeter::kFieldsPerCall - 1), kMost);
  EXPECT_EQ(passed(3 * FrameMeter::kFieldsPerCall), kMost / 4);
  EXPECT_EQ(meter_.open_calls().waiting(), meter_.open_calls().size() * 4);
}

TEST_F(FrameMeterTest, CallsWaitUntilTheirFirstMessageIsThere) {
  const auto waiting = [this] { return meter_.open_calls().waiting(); };
  Take(FrameOf(kHeaders, kEndHeaders, 1, BlockOf(kUnary)));
  Take(FrameOf(kHeaders, kEndHeaders | kEndStream, 3, BlockOf(kUnary)));  // says that there is none
  Take(FrameOf(kHeaders, 0, 5, BlockOf(kUnary).substr(0, 4)));
  EXPECT_EQ(waiting(), 1u);
  Take(FrameOf(kMore, kEndHeaders, 5, BlockOf(kUnary).substr(4)));
  EXPECT_EQ(waiting(), 2u);
  Take(FrameOf(kData, 0, 1, std::string("\0\0\0\0\3ab", 7)));
  EXPECT_EQ(waiting(), 2u);
  Take(FrameOf(kData, 0, 1, "c"));
  EXPECT_EQ(waiting(), 1u);
  EXPECT_EQ(meter_.open_calls().size(), 2u);  // it may send more
  Take(FrameOf(kData, kEndStream, 1, ""));
  EXPECT_EQ(meter_.open_calls().size(), 1u);
  Take(FrameOf(kReset, 0, 5, "1234"));
  EXPECT_EQ(meter_.open_calls().size(), 0u);
  Take(FrameOf(kHeaders, kEndHeaders, 7, BlockOf(kUnary)));
  meter_.Ended(7);
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(FrameMeterTest, MessagesAreCutAtTheirLength) {
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{7}}) {
    const OpenCalls::Limits limits{.tensor_message_bytes = 1000, .control_message_bytes = 100};
    FrameMeter meter(kStreams, earnings_, SteadyClock::now(), limits);
    std::string preface = kPreface;
    meter.Take(preface);
    for (const auto& [path, length, is_cut] :
         {std::tuple(kUnary, 1000, false), {kUnary, 1001, true}, {kCheck, 100, false}, {kCheck, 101, true}}) {
      static std::uint32_t stream = 1;
      std::string claim("\0\0\0", 3);
      claim += {static_cast<char>(length >> 8), static_cast<char>(length)};
      std::string frames = FrameOf(kHeaders, kEndHeaders, stream, BlockOf(path));
      meter.Take(frames);
      frames = FrameOf(kData, 0, stream, claim + std::string(50, 'x')) + FrameOf(kData, 0, stream, "yyyyyyyy");
      stream += 2;
      const std::string sent = frames;
      // The length arrives in one piece.
      ASSERT_EQ(meter.Take(std::span(frames).first(14)), Verdict::kFine);
      for (std::size_t at = 14; at < frames.size(); at += piece) {
        ASSERT_EQ(meter.Take(std::span(frames).subspan(at, std::min(piece, frames.size() - at))), Verdict::kFine);
      }
      std::string expected = sent;
      if (is_cut) {
        const auto mark = CutMessage(static_cast<std::uint32_t>(length));
        expected.replace(FrameHead::kBytes, 5 + mark.size(),
                         std::string("\0\0\0\0\x0c", 5) + std::string(mark.begin(), mark.end()));
      }
      EXPECT_EQ(frames, expected) << path << " " << length;
    }
  }
}

TEST_F(FrameMeterTest, ALengthInPiecesCannotBeCut) {
  const OpenCalls::Limits limits{.tensor_message_bytes = 1000, .control_message_bytes = 100};
  for (int split = 1; split <= 5; ++split) {
    FrameMeter meter(kStreams, earnings_, SteadyClock::now(), limits);
    std::string frames = kPreface + FrameOf(kHeaders, kEndHeaders, 1, BlockOf(kUnary)) +
                         FrameOf(kData, 0, 1, kClaim.substr(0, static_cast<std::size_t>(split)));
    EXPECT_EQ(meter.Take(frames), Verdict::kFine);
    frames = FrameOf(kData, 0, 1, kClaim.substr(static_cast<std::size_t>(split)) + "x");
    EXPECT_EQ(meter.Take(frames), split == 5 ? Verdict::kFine : Verdict::kMessages) << split;
  }
}

// The second message of a stream, behind the first in one frame.
TEST_F(FrameMeterTest, EveryMessageOfAStreamHasItsLimit) {
  const OpenCalls::Limits limits{.tensor_message_bytes = 1000, .control_message_bytes = 100};
  FrameMeter meter(kStreams, earnings_, SteadyClock::now(), limits);
  std::string frames = kPreface + FrameOf(kHeaders, kEndHeaders, 1, BlockOf(kUnary)) +
                       FrameOf(kData, 0, 1, std::string("\0\0\0\0\2ab", 7) + kClaim + "xxxxxxxxxxxxxxxx");
  EXPECT_EQ(meter.Take(frames), Verdict::kFine);
  const auto mark = CutMessage(0xffffffff);
  EXPECT_EQ(frames.substr(frames.size() - 21),
            std::string("\0\0\0\0\x0c", 5) + std::string(mark.begin(), mark.end()) + "xxxx");
}

}  // namespace
}  // namespace softmax::server
