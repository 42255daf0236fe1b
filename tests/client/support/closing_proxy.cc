#include "tests/client/support/closing_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>

#include "tests/support/loopback.h"

namespace softmax::client {
namespace {

constexpr std::size_t kPrefaceBytes = 24;
constexpr std::size_t kFrameHeadBytes = 9;
constexpr std::uint8_t kHeaders = 1;
constexpr std::uint8_t kResetStream = 3;
constexpr std::uint8_t kSettings = 4;
constexpr std::uint8_t kGoAwayFrame = 7;
constexpr std::uint32_t kRefusedStream = 7;
// Nothing in a test stays silent for so long.
constexpr int kPatienceMs = 60000;
constexpr int kLookMs = 20;

bool Send(int fd, const std::string& bytes) {
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::string Number(std::uint32_t value) {
  const std::uint32_t big = htonl(value);
  return {reinterpret_cast<const char*>(&big), sizeof(big)};
}

std::string Frame(std::uint8_t type, std::uint32_t stream, const std::string& body) {
  std::string head = Number(static_cast<std::uint32_t>(body.size())).substr(1);
  head += static_cast<char>(type);
  head += '\0';
  return head + Number(stream) + body;
}

// What came within the time; empty: the end.
std::string Receive(int fd, std::size_t most) {
  std::string bytes(most, '\0');
  pollfd ready = {fd, POLLIN, 0};
  if (poll(&ready, 1, kPatienceMs) <= 0) return "";
  const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

bool ReceiveAll(int fd, std::size_t count, std::string* bytes) {
  bytes->clear();
  while (bytes->size() < count) {
    const std::string more = Receive(fd, count - bytes->size());
    if (more.empty()) return false;
    *bytes += more;
  }
  return true;
}

// The stream of the next call; nothing: the client has gone.
std::optional<std::uint32_t> NextCall(int client) {
  std::string head;
  std::string body;
  while (ReceiveAll(client, kFrameHeadBytes, &head)) {
    const auto byte = [&](std::size_t at) { return static_cast<std::uint32_t>(static_cast<std::uint8_t>(head[at])); };
    if (!ReceiveAll(client, byte(0) << 16 | byte(1) << 8 | byte(2), &body)) return std::nullopt;
    if (byte(3) == kHeaders) return byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
  }
  return std::nullopt;
}

}  // namespace

ClosingProxy::ClosingProxy(const std::string& server) : server_(server) {
  listener_ = testing::StreamSocket();
  address_ = "127.0.0.1:" + std::to_string(testing::BindToLoopback(listener_));
  EXPECT_EQ(listen(listener_, 128), 0);
  acceptor_ = std::thread([this] { Accept(); });
}

ClosingProxy::~ClosingProxy() {
  stopping_ = true;
  acceptor_.join();
  for (std::thread& connection : connections_) connection.join();
  close(listener_);
}

void ClosingProxy::Accept() {
  while (!stopping_) {
    pollfd ready = {listener_, POLLIN, 0};
    if (poll(&ready, 1, kLookMs) <= 0) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    std::lock_guard lock(mu_);
    connections_.emplace_back([this, client] { Serve(client); });
  }
}

void ClosingProxy::Serve(int client) {
  if (left_.fetch_sub(1) > 0) {
    Close(client);
  } else {
    left_ = 0;
    Forward(client);
  }
  close(client);
}

void ClosingProxy::Close(int client) {
  std::string preface;
  if (!ReceiveAll(client, kPrefaceBytes, &preface) || !Send(client, Frame(kSettings, 0, ""))) return;
  auto stream = NextCall(client);
  if (stream && way_ == Way::kRefuse) {
    Send(client, Frame(kResetStream, *stream, Number(kRefusedStream)));
    stream = NextCall(client);
  }
  if (!stream) return;
  ++closed_;
  const std::uint32_t last_taken = way_ == Way::kGoAwaySeen ? *stream : 0;
  Send(client, Frame(kGoAwayFrame, 0, Number(last_taken) + Number(0)));
  // What is still on its way is read, so that no reset overtakes the GOAWAY.
  shutdown(client, SHUT_WR);
  while (!Receive(client, 65536).empty()) {
  }
}

void ClosingProxy::Forward(int client) const {
  const int server = testing::StreamSocket();
  bool open = testing::ConnectToLoopback(server, testing::PortOf(server_));
  while (open && !stopping_) {
    std::array<pollfd, 2> ends = {pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    if (poll(ends.data(), ends.size(), kLookMs) <= 0) continue;
    for (std::size_t from = 0; from < 2 && open; ++from) {
      if (ends[from].revents == 0) continue;
      const std::string bytes = Receive(ends[from].fd, 65536);
      open = !bytes.empty() && Send(ends[1 - from].fd, bytes);
    }
  }
  close(server);
}

}  // namespace softmax::client
