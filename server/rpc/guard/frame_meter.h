#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "server/rpc/guard/frame_head.h"
#include "server/rpc/guard/header_reader.h"
#include "server/rpc/guard/open_calls.h"

namespace softmax::server {

// What a connection has done for its client: the queue threads write it, and the meter forgives frames for it.
struct Earnings {
  std::atomic<std::uint64_t> calls{0};   // finished, in whatever way
  std::atomic<std::uint64_t> frames{0};  // that the client may have needed for them
  std::atomic<std::int64_t> unread{0};   // bytes of answers on their way
};

// Judges a client by the HTTP/2 frames that it sends, before gRPC spends anything on them. gRPC 1.51 allocates some
// kilobytes a call and has no limit on calls that are begun and taken back, on headers that never end, or on frames
// that carry nothing.
//
// Two debts grow with what arrives. A call is one from its begin until it has finished, and one more that only time
// forgives where the client takes it back, finished or not, and for many header fields. Frames that bring neither a
// call nor much of a message are forgiven by calls and answers, and by time. Honest clients stay far below both limits,
// at any speed, since what they receive pays for what they send (docs/decisions/hostile-connections.md has the
// numbers).
//
// It also knows which calls are open, cuts messages that claim more than their method takes, and tells how many calls
// wait for their first message (open_calls.h).
//
// One thread at a time.
class FrameMeter {
 public:
  enum class Verdict : std::uint8_t {
    kFine,
    kCalls,     // too many begun that did not finish, or taken back
    kFrames,    // too many that carry nothing: SETTINGS, PING, WINDOW_UPDATE, empty DATA and the like
    kHeaders,   // one call's headers do not end
    kMessages,  // messages that claim more than their methods take, again or in pieces
    kWaiting,   // too many calls of all connections wait for a message; not the meter's to see (waiting_calls.h)
  };
  static constexpr int kVerdicts = 6;

  // Above the streams that a connection may have open.
  static constexpr std::uint64_t kSpareCalls = 1024;
  static constexpr std::uint64_t kCallsPerSecond = 4096;
  static constexpr std::uint64_t kSpareFrames = 16384;
  static constexpr std::uint64_t kFramesPerSecond = 8192;
  // A client grants windows and answers pings for what it receives: this number of frames a call, and one for this
  // number of bytes.
  static constexpr std::uint64_t kFramesPerCall = 8;
  static constexpr std::uint64_t kBytesPerFrame = 1024;
  // PING and SETTINGS make gRPC write a reply, and count as this number of frames.
  static constexpr std::uint64_t kFramesPerReply = 8;
  // A DATA frame of fewer bytes carries nothing,
  static constexpr std::uint32_t kSmallData = 1024;
  // but for a stream's small request. A client may have sent as many of these as the windows hold before the first is
  // looked at, tens of thousands: kRequestsPerFrame of them count as one frame.
  static constexpr std::uint32_t kLeastRequest = 16;
  static constexpr std::uint64_t kRequestsPerFrame = 8;
  // For this number of fields of a call's headers gRPC takes as much memory as for another call.
  static constexpr std::uint32_t kFieldsPerCall = 64;
  // Four times what gRPC accepts.
  static constexpr std::uint64_t kHeaderBytes = 64u << 10;
  static constexpr int kHeaderFrames = 32;

  // `streams`: that the server lets a connection have open. `earnings` is the caller's, and outlives this.
  FrameMeter(std::uint64_t streams, const Earnings& earnings, TimePoint now, const OpenCalls::Limits& limits = {})
      : streams_(streams), earnings_(&earnings), open_calls_(limits), forgiven_(now) {}

  // Bytes in the order in which they arrive, the connection preface first. May change them. Anything but kFine: read no
  // more of it.
  Verdict Take(std::span<char> bytes);
  // The server has ended this call.
  void Ended(std::uint32_t stream) { open_calls_.End(stream); }

  const OpenCalls& open_calls() const { return open_calls_; }
  // Whether bytes of messages have come since it was last asked.
  bool TookMessages() { return std::exchange(took_messages_, false); }

  // Whether the client has finished HTTP/2's begin, and whether it has begun a call.
  bool acknowledged_settings() const { return acknowledged_settings_; }
  bool has_called() const { return last_stream_ != 0; }

 private:
  Verdict TakeHeader();
  Verdict TakePayload(std::span<char> piece);
  void TakeBlock(std::string_view piece);
  Verdict Judge(TimePoint now);

  std::uint64_t streams_;
  const Earnings* earnings_;

  FrameHeadReader heads_;
  FrameHead frame_;          // whose payload comes
  std::uint64_t skip_ = 24;  // bytes until the next frame's header
  std::uint32_t last_stream_ = 0;

  OpenCalls open_calls_;
  bool took_messages_ = false;
  HeaderReader headers_;
  std::string block_;              // of headers: the part that has come, where it comes in pieces
  FrameHead block_head_;           // of the frame that began it
  bool block_opens_ = false;       // a call whose client may send messages
  std::uint64_t block_bytes_ = 0;  // of the header block that is open
  int block_frames_ = 0;
  // Until then gRPC holds the client to no number of streams, and time forgives no calls.
  bool acknowledged_settings_ = false;

  std::uint64_t calls_ = 0;
  std::uint64_t frames_ = 0;
  std::uint64_t small_requests_ = 0;
  // What the debts were reduced by already.
  std::uint64_t earned_calls_ = 0;
  std::uint64_t earned_frames_ = 0;
  TimePoint forgiven_;
};

}  // namespace softmax::server
