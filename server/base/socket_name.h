#pragma once

#include <sys/socket.h>

#include <string>

namespace softmax::server {

// host:port or [v6]:port.
std::string SocketName(const sockaddr_storage& name, socklen_t length);
// Who is at the other end, for logs: "127.0.0.1:4711", or "unix pid 12 uid 1000".
std::string PeerName(int fd);

}  // namespace softmax::server
