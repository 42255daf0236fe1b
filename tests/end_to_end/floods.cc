#include "tests/end_to_end/floods.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "tests/end_to_end/http2_frames.h"
#include "tests/support/loopback.h"

namespace softmax::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kUnary[] = "/softmax.v1.SoftmaxService/Softmax";
constexpr char kStream[] = "/softmax.v1.SoftmaxService/SoftmaxStream";
constexpr char kInfo[] = "/softmax.v1.SoftmaxService/GetServerInfo";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

std::string Times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// One call after another, each followed by `rest` (a frame's type, flags and body for its stream).
std::function<std::string(std::uint32_t*)> Calls(const std::string& path, int flags,
                                                 const std::function<std::string(std::uint32_t)>& rest = nullptr,
                                                 const std::string& more_fields = "") {
  const std::string block = CallHeaders(path) + more_fields;
  return [block, flags, rest](std::uint32_t* stream) {
    std::string frames = Http2Frame(kHeaders, flags, *stream, block);
    if (rest != nullptr) frames += rest(*stream);
    *stream += 2;
    return frames;
  };
}

std::function<std::string(std::uint32_t*)> Always(const std::string& frames) {
  return [frames](std::uint32_t*) { return frames; };
}

std::string EmptyMessageTo(std::uint32_t stream) { return Http2Frame(kData, kEndStream, stream, std::string(5, '\0')); }

std::string ResetOf(std::uint32_t stream) { return Http2Frame(kReset, 0, stream, BigEndian(8, 4)); }

}  // namespace

std::vector<Attack> Attacks() {
  const std::string ack = Http2Frame(kSettings, kAck, 0);
  const std::string open = ack + Http2Frame(kHeaders, kEndHeaders, 1, CallHeaders(kStream));
  const std::string headers = Http2Frame(kHeaders, 0, 1, CallHeaders(kUnary));
  const std::string header = std::string(1, '\0') + Literal("a") + Literal("b");
  std::vector<Attack> attacks = {
      // What acknowledges the settings and then breaks them, gRPC ends as well.
      {"unknown methods", Calls("/x/y", kEndHeaders | kEndStream), ack, false, true},
      {"unknown methods, answers read", Calls("/x/y", kEndHeaders | kEndStream), ack, true, true},
      {"unknown methods, settings not acknowledged", Calls("/x/y", kEndHeaders | kEndStream), "", true},
      {"unknown methods with 200 header fields, settings not acknowledged",
       Calls("/x/y", kEndHeaders | kEndStream, nullptr, Times(200, "\xbe")),
       Http2Frame(kHeaders, kEndHeaders | kEndStream, 1, CallHeaders("/x/y") + "\x40" + Literal("a") + Literal("b"))},
      {"unknown methods with messages", Calls("/x/y", kEndHeaders, EmptyMessageTo), ack, false, true},
      {"calls that stay open, settings not acknowledged", Calls(kStream, kEndHeaders), ""},
      {"unary calls without a message, settings not acknowledged", Calls(kUnary, kEndHeaders), ""},
      {"reset after a message",
       Calls(kUnary, kEndHeaders, [](std::uint32_t stream) { return EmptyMessageTo(stream) + ResetOf(stream); })},
      {"refused requests, answers not read", Calls(kUnary, kEndHeaders, EmptyMessageTo), ack, false, true},
      {"refused requests, settings not acknowledged", Calls(kUnary, kEndHeaders, EmptyMessageTo), ""},
      {"refused requests, answers read", Calls(kUnary, kEndHeaders, EmptyMessageTo), ack, true, true},
      {"SETTINGS", Always(Http2Frame(kSettings, 0, 0))},
      {"SETTINGS, answers read", Always(Http2Frame(kSettings, 0, 0)), ack, true},
      {"PING", Always(Http2Frame(kPing, 0, 0, "12345678")), ack, false, true},
      {"WINDOW_UPDATE by 1", Always(Http2Frame(kWindow, 0, 0, BigEndian(1, 4)))},
      {"empty DATA", Always(Http2Frame(kData, 0, 1)), open},
      {"padded DATA", Always(Http2Frame(kData, kPadded, 1, std::string(1, '\7') + std::string(7, '\0'))), open},
      {"PRIORITY", Always(Http2Frame(kPriority, 0, 1, BigEndian(0, 4) + "1"))},
      {"frames of an unknown type", Always(Http2Frame(0x42, 0, 0, "x"))},
      {"RST_STREAM of one stream", Always(ResetOf(1)), open},
      {"headers that do not end", Always(Http2Frame(kContinuation, 0, 1, Times(100, header))), ack + headers},
      {"headers that do not end, in empty frames", Always(Http2Frame(kContinuation, 0, 1)), ack + headers},
      {"a number in the headers that does not end", Always(Http2Frame(kContinuation, 0, 1, std::string(16000, '\xff'))),
       ack + headers, false, true},
  };
  for (const char* method : {kUnary, kStream, kInfo, kCheck, kWatch, kReflection}) {
    attacks.push_back({std::string("rapid reset of ") + method, Calls(method, kEndHeaders, ResetOf)});
  }
  return attacks;
}

std::optional<Clock::duration> Flood(const std::string& target, const Attack& attack, Clock::duration most) {
  const int fd = StreamSocket();
  if (!ConnectToLoopback(fd, PortOf(target))) {
    close(fd);
    throw std::runtime_error("cannot connect to " + target);
  }
  const auto began = Clock::now();
  std::string bytes = kHttp2Preface + Http2Frame(kSettings, 0, 0) + attack.first;
  std::uint32_t stream = 1;
  std::optional<Clock::duration> ended;
  while (!ended && Clock::now() - began < most) {
    pollfd ready{fd, static_cast<short>(attack.reads ? POLLIN | POLLOUT : POLLOUT), 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    if ((ready.revents & POLLIN) != 0) {
      char sink[65536];
      if (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) == 0) ended = Clock::now() - began;
    }
    if ((ready.revents & (POLLERR | POLLHUP)) != 0) ended = Clock::now() - began;
    if ((ready.revents & POLLOUT) == 0) continue;
    while (bytes.size() < 65536) bytes += attack.more(&stream);
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) bytes.erase(0, static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN) ended = Clock::now() - began;
  }
  close(fd);
  return ended;
}

}  // namespace softmax::testing
