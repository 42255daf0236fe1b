#include "tests/end_to_end/name_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "tests/support/loopback.h"

namespace softmax::testing {
namespace {

constexpr std::size_t kHeadBytes = 12;
constexpr int kLookMs = 20;
constexpr std::size_t kMostBytes = 512;
constexpr std::uint16_t kTypeA = 1;

std::string Number16(std::uint16_t value) { return {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)}; }

}  // namespace

NameServer::NameServer() {
  fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  address_ = "127.0.0.1:" + std::to_string(BindToLoopback(fd_));
  thread_ = std::thread([this] { Run(); });
}

NameServer::~NameServer() {
  stopping_ = true;
  thread_.join();
  close(fd_);
}

void NameServer::Set(const std::string& name, std::vector<std::string> addresses) {
  std::lock_guard lock(mu_);
  names_[name] = std::move(addresses);
}

void NameServer::Run() {
  while (!stopping_) {
    pollfd ready = {fd_, POLLIN, 0};
    if (poll(&ready, 1, kLookMs) <= 0) continue;
    std::string question(kMostBytes, '\0');
    sockaddr_in from = {};
    socklen_t size = sizeof(from);
    const ssize_t got = recvfrom(fd_, question.data(), question.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < static_cast<ssize_t>(kHeadBytes)) continue;
    question.resize(static_cast<std::size_t>(got));
    const std::string answer = Answer(question);
    sendto(fd_, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
  }
}

// RFC 1035: the question's head and its one question, then an address of four bytes each.
std::string NameServer::Answer(const std::string& question) {
  std::string name;
  std::size_t at = kHeadBytes;
  while (at < question.size() && question[at] != '\0') {
    const auto length = static_cast<std::size_t>(static_cast<unsigned char>(question[at]));
    if (at + length + 1 > question.size()) return "";
    name += (name.empty() ? "" : ".") + question.substr(at + 1, length);
    at += length + 1;
  }
  const std::size_t end = at + 5;  // the empty label, type and class
  if (end > question.size()) return "";
  const bool asks_for_ipv4 = question.substr(at + 1, 2) == Number16(kTypeA);
  std::vector<std::string> addresses;
  {
    std::lock_guard lock(mu_);
    const auto found = names_.find(name);
    if (found != names_.end()) addresses = found->second;
  }
  if (asks_for_ipv4) ++questions_;
  const std::uint16_t flags = addresses.empty() ? 0x8583 : 0x8580;  // an authority's answer; no such name
  if (!asks_for_ipv4) addresses.clear();
  std::string answer = question.substr(0, 2) + Number16(flags) + Number16(1) +
                       Number16(static_cast<std::uint16_t>(addresses.size())) + Number16(0) + Number16(0) +
                       question.substr(kHeadBytes, end - kHeadBytes);
  for (const std::string& address : addresses) {
    in_addr ip = {};
    EXPECT_EQ(inet_pton(AF_INET, address.c_str(), &ip), 1) << address;
    // The name above; it may be kept for no time.
    answer += Number16(0xc000 + kHeadBytes) + Number16(kTypeA) + Number16(1) + std::string(4, '\0') + Number16(4) +
              std::string(reinterpret_cast<const char*>(&ip), sizeof(ip));
  }
  return answer;
}

}  // namespace softmax::testing
