#include "tests/end_to_end/http2_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tests/end_to_end/http2_frames.h"
#include "tests/support/loopback.h"

namespace softmax::testing {
Http2Client::Http2Client(const std::string& target, std::uint32_t window) {
  Connect(target);
  if (fd_ < 0) return;
  SendRaw(kHttp2Preface);
  Frame(4, 0, 0, BigEndian(4, 2) + BigEndian(window, 4));     // SETTINGS_INITIAL_WINDOW_SIZE
  if (window > 0) Frame(8, 0, 0, BigEndian(0x7fff0000u, 4));  // and of the connection
}

Http2Client::Http2Client(const std::string& target, const std::string& greeting) {
  Connect(target);
  if (fd_ >= 0) SendRaw(greeting);
}

bool Http2Client::ClosedWithin(int milliseconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  char sink[4096];
  while (std::chrono::steady_clock::now() < until) {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    const ssize_t got = recv(fd_, sink, sizeof(sink), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

void Http2Client::Connect(const std::string& target) {
  fd_ = StreamSocket();
  // A small receive buffer, so that an unread answer stays in the server.
  const int buffer = 16384;
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
  if (!ConnectToLoopback(fd_, PortOf(target))) {
    close(fd_);
    fd_ = -1;
  }
}

Http2Client::~Http2Client() {
  if (fd_ >= 0) close(fd_);
}

bool Http2Client::SendRaw(const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    pollfd ready{fd_, POLLOUT, 0};
    if (poll(&ready, 1, 2000) <= 0) return false;
    const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN) return false;
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  return true;
}

void Http2Client::Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, const std::string& body) {
  SendRaw(Http2Frame(type, flags, stream, body));
}

std::uint32_t Http2Client::StartCall(const std::string& method, const std::string& encoding) {
  const std::uint32_t stream = next_stream_;
  next_stream_ += 2;
  stream_window_ = initial_window_;
  std::string block = CallHeaders(method.front() == '/' ? method : "/softmax.v1.SoftmaxService/" + method);
  if (!encoding.empty()) block += std::string(1, '\0') + Literal("grpc-encoding") + Literal(encoding);
  Frame(kHeaders, kEndHeaders, stream, block);
  return stream;
}

bool Http2Client::ReadExactly(std::string* bytes, int timeout_ms) {
  std::size_t got = 0;
  while (got < bytes->size()) {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, timeout_ms) <= 0) return false;
    const ssize_t n = recv(fd_, bytes->data() + got, bytes->size() - got, MSG_DONTWAIT);
    if (n <= 0) return false;
    got += static_cast<std::size_t>(n);
  }
  return true;
}

bool Http2Client::TakeFrame(int timeout_ms) {
  std::string head(9, '\0');
  if (!ReadExactly(&head, timeout_ms)) return false;
  const auto byte = [](const std::string& text, std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[i]));
  };
  std::string body((byte(head, 0) << 16) | (byte(head, 1) << 8) | byte(head, 2), '\0');
  if (!ReadExactly(&body, 2000)) return false;
  const std::uint32_t type = byte(head, 3);
  const bool acknowledged = (byte(head, 4) & 1) != 0;
  const auto number = [&](std::size_t i) {
    return (byte(body, i) << 24) | (byte(body, i + 1) << 16) | (byte(body, i + 2) << 8) | byte(body, i + 3);
  };
  if (type == 8) {  // WINDOW_UPDATE
    const bool connection = (byte(head, 5) | byte(head, 6) | byte(head, 7) | byte(head, 8)) == 0;
    (connection ? connection_window_ : stream_window_) += number(0);
  } else if (type == 4 && !acknowledged) {  // SETTINGS
    for (std::size_t i = 0; i + 6 <= body.size(); i += 6) {
      if (byte(body, i + 1) != 4) continue;
      stream_window_ += number(i + 2) - initial_window_;
      initial_window_ = number(i + 2);
    }
    Frame(4, 1, 0, "");
  } else if (type == 6 && !acknowledged) {  // PING
    Frame(6, 1, 0, body);
  }
  return true;
}

bool Http2Client::SendBody(std::uint32_t stream, const std::string& bytes, bool end) {
  std::size_t at = 0;
  while (true) {
    while (TakeFrame(0)) {
    }
    const std::int64_t window = std::min(connection_window_, stream_window_);
    const auto size =
        std::min<std::size_t>({16384, bytes.size() - at, static_cast<std::size_t>(std::max<std::int64_t>(window, 0))});
    const bool last = at + size == bytes.size();
    if (size == 0 && !last) {
      if (!TakeFrame(2000)) return false;
      continue;
    }
    std::string head = BigEndian(static_cast<std::uint32_t>(size), 3);
    head.push_back('\0');
    head.push_back(last && end ? '\x01' : '\0');
    if (!SendRaw(head + BigEndian(stream, 4) + bytes.substr(at, size))) return false;
    at += size;
    connection_window_ -= static_cast<std::int64_t>(size);
    stream_window_ -= static_cast<std::int64_t>(size);
    if (last) return true;
  }
}

void Http2Client::Reset(std::uint32_t stream) { Frame(3, 0, stream, BigEndian(8, 4)); }

void Http2Client::ReadFor(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  char drop[65536];
  while (std::chrono::steady_clock::now() < end) {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, 10) > 0 && recv(fd_, drop, sizeof(drop), MSG_DONTWAIT) == 0) return;
  }
}

std::string Http2Client::ReadStatus() {
  const std::string name = "grpc-status";  // as gRPC sends it: no table yet, and no Huffman code
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::string all;
  while (std::chrono::steady_clock::now() < end) {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    char bytes[4096];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) return "";
    all.append(bytes, static_cast<std::size_t>(got));
    const std::size_t at = all.find(name);
    if (at == std::string::npos || all.size() == at + name.size()) continue;
    const std::size_t begin = at + name.size() + 1;
    if (all.size() >= begin + static_cast<std::uint8_t>(all[begin - 1])) return all.substr(begin);
  }
  return "";
}

std::size_t Http2Client::Read(std::size_t most) {
  std::string drop(most, '\0');
  const ssize_t got = recv(fd_, drop.data(), most, MSG_DONTWAIT);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

std::string GrpcFrame(const std::string& message) {
  return std::string(1, '\0') + BigEndian(static_cast<std::uint32_t>(message.size()), 4) + message;
}

}  // namespace softmax::testing
