#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace softmax::server {

// How a connection begins, as seen in its first bytes before gRPC has the socket. gRPC 1.51 gives a socket that it is
// handed all the time in the world to begin; so the accept loop waits for it instead, with a limit.
enum class Greeting : std::uint8_t {
  kIncomplete,  // fits so far
  kRight,
  kHttp1,  // a browser or a scraper at the wrong port
  kWrong,
};

enum class Protocol : std::uint8_t { kHttp2, kTls };

// Enough to judge by: HTTP/2's preface has 24 bytes, a ClientHello's random number ends at 43.
constexpr std::size_t kGreetingBytes = 43;

Greeting JudgeGreeting(Protocol protocol, std::string_view bytes);

// Tells an HTTP/1 client, as far as the socket takes it without waiting, that this is a gRPC port. Does not close.
void AnswerHttp1(int fd);

}  // namespace softmax::server
