#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/socket_name.h"

namespace softmax::server {
namespace {

// The network that a listener of this family sees of a client that connects to it from `source` over IPv4 or IPv6.
std::string Seen(int listener_family, const char* source) {
  const int listener = socket(listener_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage name{};
  name.ss_family = static_cast<sa_family_t>(listener_family);
  socklen_t size = sizeof(name);
  auto* const any = reinterpret_cast<sockaddr*>(&name);
  EXPECT_EQ(bind(listener, any, listener_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  EXPECT_EQ(getsockname(listener, any, &size), 0);
  const in_port_t port = reinterpret_cast<const sockaddr_in*>(&name)->sin_port;  // at the same place in both
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v4 = inet_pton(AF_INET, source, &v4.sin_addr) == 1;
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  if (!is_v4) {
    EXPECT_EQ(inet_pton(AF_INET6, source, &v6.sin6_addr), 1);
  }
  const auto* const address = is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  const socklen_t length = is_v4 ? sizeof(v4) : sizeof(v6);
  const int client = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(bind(client, address, length), 0);
  (is_v4 ? v4.sin_port : v6.sin6_port) = port;
  if (is_v4) v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client, address, length), 0);
  const int accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  const std::string network = PeerNetwork(accepted);
  for (const int fd : {listener, client, accepted}) close(fd);
  return network;
}

TEST(PeerNetwork, IsAnIpv4AddressOrTheFirstHalfOfAnIpv6One) {
  EXPECT_EQ(Seen(AF_INET, "127.0.0.1"), std::string("\x7f\0\0\1", 4));
  EXPECT_EQ(Seen(AF_INET, "127.0.0.2"), std::string("\x7f\0\0\2", 4));
  EXPECT_EQ(Seen(AF_INET6, "127.0.0.2"), std::string("\x7f\0\0\2", 4));  // by a socket of both families
  EXPECT_EQ(Seen(AF_INET6, "::1"), std::string(8, '\0'));
}

TEST(PeerNetwork, IsNothingForAUnixSocket) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_EQ(PeerNetwork(ends[0]), "");
  for (const int fd : ends) close(fd);
}

}  // namespace
}  // namespace softmax::server
