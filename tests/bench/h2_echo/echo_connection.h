#pragma once

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tests/bench/h2_echo/call.h"
#include "tests/bench/h2_echo/connection.h"
#include "tests/bench/h2_echo/deadlines.h"
#include "tests/bench/rotating_buffer.h"

namespace softmax::bench {

// The server's end of a connection: unary calls and streams of raw messages, each answered with itself.
class EchoConnection final : public Connection {
 public:
  struct Settings {
    RotatingBuffer* copy = nullptr;  // where each message is also copied once; null: nowhere
    bool ends_floods = true;
  };

  EchoConnection(int fd, Memory* memory, Deadlines* deadlines, const Settings& settings);
  ~EchoConnection() override;

  // One turn; false: the connection is over.
  bool Turn(Deadlines::Clock::time_point now);
  // The call's deadline is over.
  void Expire(std::int32_t stream);
  // No further calls; those under way are answered.
  void Drain();

  // Callbacks that are the same for all connections.
  static const Callbacks& SharedCallbacks();

 private:
  static EchoConnection* Self(void* user_data) { return static_cast<EchoConnection*>(Of(user_data)); }
  Call* Find(std::int32_t stream);

  void OnHeadersEnd(std::int32_t stream, Call* call);
  void OnData(std::int32_t stream, std::span<const std::uint8_t> bytes);
  void OnHalfClose(std::int32_t stream, Call* call);
  void OnClosed(std::int32_t stream);

  // Ends the call, with what is ready of its answer before.
  void Finish(std::int32_t stream, Call* call, Code code, std::string_view text = "");
  // Tells nghttp2 that there is something to send.
  void Send(std::int32_t stream, Call* call);
  void SubmitTrailers(std::int32_t stream, const Call& call);
  // Lets the client send more, unless it does not read what it gets.
  void OpenWindow(std::int32_t stream, Call* call);
  ssize_t ReadAnswer(std::int32_t stream, Call* call, std::size_t most, std::uint32_t* flags);
  void TakeMessage(std::int32_t stream, nghttp2_data_source* source, std::size_t length, SliceQueue* output) override;

  void CountFrame();

  Deadlines* const deadlines_;
  const Settings settings_;
  std::unordered_map<std::int32_t, Call> calls_;
  std::vector<std::int32_t> timed_;  // calls of this turn that have a deadline
  std::size_t held_ = 0;             // bytes of all calls
  double debt_ = 0;
  Deadlines::Clock::time_point now_;
};

}  // namespace softmax::bench
