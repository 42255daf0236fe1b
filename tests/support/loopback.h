#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

// Sockets on 127.0.0.1. A descriptor is the caller's to close.
namespace softmax::testing {

inline int PortOf(const std::string& target) { return std::stoi(target.substr(target.rfind(':') + 1)); }

inline sockaddr_in LoopbackAt(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Whether somebody listens there.
[[nodiscard]] inline bool ConnectToLoopback(int fd, int port) {
  const sockaddr_in address = LoopbackAt(port);
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

inline int StreamSocket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

// A connection to where somebody listens; the test fails otherwise.
inline int ConnectedToLoopback(int port) {
  const int fd = StreamSocket();
  EXPECT_TRUE(ConnectToLoopback(fd, port)) << "port " << port;
  return fd;
}

// Takes a free port, which is returned.
inline int BindToLoopback(int fd) {
  sockaddr_in address = LoopbackAt(0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

}  // namespace softmax::testing
