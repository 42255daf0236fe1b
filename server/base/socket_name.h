#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

namespace softmax::server {

// host:port or [v6]:port.
std::string SocketName(const sockaddr_storage& name, socklen_t length);
// Who is at the other end, for logs: "127.0.0.1:4711", or "unix pid 12 uid 1000".
std::string PeerName(int fd);

// Where the other end is.
struct PeerAddress {
  std::string ip;  // the 4 bytes of an IPv4 address, be it mapped into IPv6, or the 16 of an IPv6 one
  int port = 0;
};
// Nothing: a unix socket, or one whose other end has gone.
std::optional<PeerAddress> AddressOfPeer(int fd);
// As connections are counted by it: an IPv4 address, or the 64 bits of an IPv6 address that tell networks apart, since
// a host has all of the rest. As bytes; empty for a unix socket.
std::string PeerNetwork(int fd);

}  // namespace softmax::server
