#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/bench/h2_echo/connection.h"

namespace softmax::bench {

// What calls did, of one thread.
struct Seen {
  std::vector<float> latencies_us;  // of answers within the window
  std::uint64_t errors = 0;         // calls that ended otherwise than with OK
  std::uint64_t wrong = 0;          // answers whose length, or bytes where they were compared, are not the request's
};

// The driver's end of a connection: keeps a number of calls, or of messages of one stream, under way.
class DriverConnection final : public Connection {
 public:
  using Clock = std::chrono::steady_clock;

  struct Settings {
    std::string path;
    std::string authority;
    std::string message;  // with gRPC's five bytes before it; answers are the same
    int in_flight = 1;
    bool stream = false;
    unsigned verify_every = 64;  // of the others the length is looked at
  };

  // `settings` and `seen` outlive it.
  DriverConnection(int fd, Memory* memory, const Settings* settings, Seen* seen);

  // One turn; false: the connection is over. `measuring`: latencies count.
  bool Turn(bool measuring);

 private:
  struct Call {
    std::size_t to_send = 0;   // bytes of requests that were not sent
    std::size_t answered = 0;  // bytes of the present answer
    bool compared = false;     // the present answer is
    bool equal = true;
    bool waiting = false;  // nghttp2 asked for more than there was
    bool ok = false;       // its status is
    Clock::time_point began;
  };

  static DriverConnection* Self(void* user_data) { return static_cast<DriverConnection*>(Of(user_data)); }
  static const Callbacks& SharedCallbacks();
  std::size_t message_bytes() const { return settings_.message.size(); }
  void BeginCall();
  void OnHeader(std::int32_t stream, std::string_view name, std::string_view value);
  void OnData(std::int32_t stream, std::span<const std::uint8_t> bytes);
  void OnWholeAnswer(std::int32_t stream, Call* call);
  void OnClosed(std::int32_t stream, std::uint32_t error);
  void Count(Clock::time_point began);
  ssize_t ReadRequest(Call* call, std::size_t most, std::uint32_t* flags) const;
  void TakeMessage(std::int32_t stream, nghttp2_data_source* source, std::size_t length, SliceQueue* output) override;

  const Settings& settings_;
  Seen* const seen_;
  std::unordered_map<std::int32_t, Call> calls_;
  std::vector<Clock::time_point> sent_;  // a stream's messages under way, in a ring
  std::uint64_t answers_ = 0;
  bool measuring_ = false;
};

}  // namespace softmax::bench
