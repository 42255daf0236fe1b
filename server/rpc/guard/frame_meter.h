#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "server/base/clock.h"

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
// forgives where the client takes it back, finished or not. Frames that bring neither a call nor much of a message are
// forgiven by calls and answers, and by time. Honest clients stay far below both limits, at any speed, since what they
// receive pays for what they send (docs/decisions/hostile-connections.md has the numbers).
//
// For the thread that reads the connection.
class FrameMeter {
 public:
  enum class Verdict : std::uint8_t {
    kFine,
    kCalls,     // too many begun that did not finish, or taken back
    kFrames,    // too many that carry nothing: SETTINGS, PING, WINDOW_UPDATE, empty DATA and the like
    kHeaders,   // one call's headers do not end
    kMessages,  // messages of megabytes for calls that take a few bytes; not the meter's to see
  };
  static constexpr int kVerdicts = 5;

  // Above the streams that a connection may have open.
  static constexpr std::uint64_t kSpareCalls = 1024;
  static constexpr std::uint64_t kCallsPerSecond = 4096;
  static constexpr std::uint64_t kSpareFrames = 16384;
  static constexpr std::uint64_t kFramesPerSecond = 8192;
  // A client grants windows and answers pings for what it receives: so many frames a call, and for so many bytes one.
  static constexpr std::uint64_t kFramesPerCall = 8;
  static constexpr std::uint64_t kBytesPerFrame = 1024;
  // PING and SETTINGS make gRPC write a reply, and count as so many.
  static constexpr std::uint64_t kFramesPerReply = 8;
  // A DATA frame of fewer bytes carries nothing,
  static constexpr std::uint32_t kSmallData = 1024;
  // but for a stream's small request. A client may have sent as many of these as the windows hold before the first is
  // looked at, tens of thousands: so many count as one frame.
  static constexpr std::uint32_t kLeastRequest = 16;
  static constexpr std::uint64_t kRequestsPerFrame = 8;
  // Four times what gRPC accepts.
  static constexpr std::uint64_t kHeaderBytes = 64u << 10;
  static constexpr int kHeaderFrames = 32;

  // `streams`: that the server lets a connection have open. `earnings` is the caller's, and outlives this.
  FrameMeter(std::uint64_t streams, const Earnings& earnings, TimePoint now)
      : streams_(streams), earnings_(&earnings), forgiven_(now) {}

  // Bytes in the order in which they arrive, the connection preface first. Anything but kFine: read no more of it.
  Verdict Take(std::string_view bytes);

  // Whether the client has finished HTTP/2's begin, and whether it has begun a call.
  bool acknowledged_settings() const { return acknowledged_settings_; }
  bool has_called() const { return last_stream_ != 0; }

 private:
  Verdict TakeHeader();
  Verdict Judge(TimePoint now);

  std::uint64_t streams_;
  const Earnings* earnings_;

  std::array<std::uint8_t, 9> header_{};
  std::size_t header_bytes_ = 0;
  std::uint64_t skip_ = 24;  // bytes until the next frame's header
  std::uint32_t last_stream_ = 0;
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
