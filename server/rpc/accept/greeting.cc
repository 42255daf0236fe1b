#include "server/rpc/accept/greeting.h"

#include <sys/socket.h>

#include <algorithm>

namespace softmax::server {
namespace {

constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// What a ClientHello has at these places, whatever its version (RFC 8446, 4.1.2 and 5.1): the record's type and
// version, the message's type, and the version that it asks for.
struct Fixed {
  std::size_t at;
  char byte;
};
constexpr Fixed kClientHello[] = {{0, 0x16}, {1, 3}, {5, 1}, {9, 3}};
constexpr std::size_t kRecordLengthAt = 3;
constexpr std::size_t kRecordHead = 5;
constexpr std::size_t kMaxRecord = 16384;
constexpr std::string_view kMethods[] = {"GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "CONNECT "};

bool IsHttp1(std::string_view bytes) {
  return std::any_of(std::begin(kMethods), std::end(kMethods),
                     [&](std::string_view method) { return bytes.substr(0, method.size()) == method; });
}

bool MayBeClientHello(std::string_view bytes) {
  const bool fits = std::all_of(std::begin(kClientHello), std::end(kClientHello), [&](const Fixed& fixed) {
    return fixed.at >= bytes.size() || bytes[fixed.at] == fixed.byte;
  });
  if (!fits || bytes.size() < kRecordHead) return fits;
  const auto high = static_cast<std::uint8_t>(bytes[kRecordLengthAt]);
  const std::size_t length = high * 256u + static_cast<std::uint8_t>(bytes[kRecordLengthAt + 1]);
  return length >= kGreetingBytes - kRecordHead && length <= kMaxRecord;
}

}  // namespace

Greeting JudgeGreeting(Protocol protocol, std::string_view bytes) {
  if (bytes.empty()) return Greeting::kIncomplete;
  if (protocol == Protocol::kTls) {
    // Junk costs gRPC a handshake each time: what cannot be a hello does not get there.
    if (!MayBeClientHello(bytes)) return Greeting::kWrong;
    return bytes.size() < kGreetingBytes ? Greeting::kIncomplete : Greeting::kRight;
  }
  const std::string_view head = bytes.substr(0, kHttp2Preface.size());
  if (head == kHttp2Preface.substr(0, head.size())) {
    return head.size() == kHttp2Preface.size() ? Greeting::kRight : Greeting::kIncomplete;
  }
  return IsHttp1(bytes) ? Greeting::kHttp1 : Greeting::kWrong;
}

void AnswerHttp1(int fd) {
  constexpr std::string_view kAnswer =
      "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
      "This port speaks gRPC, which is HTTP/2.\n";
  send(fd, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(fd, SHUT_WR);
  // What lies unread when a socket is closed makes the kernel reset it, and the client would lose the answer.
  char sink[4096];
  for (int i = 0; i < 16 && recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0; ++i) {
  }
}

}  // namespace softmax::server
