#pragma once

#include <string>

namespace softmax::server {

// Where a socket's other end is, as connections are counted by it: an IPv4 address, or the 64 bits of an IPv6 address
// that tell networks apart, since a host has all of the rest. As bytes; empty for a unix socket.
std::string PeerNetwork(int fd);

}  // namespace softmax::server
