#pragma once

#include <string>
#include <vector>

namespace softmax::server {

// One address, which may be several sockets: localhost is 127.0.0.1 and ::1, and a name is all that it resolves to.
struct TcpListeners {
  std::vector<int> fds;  // listening, non-blocking, close-on-exec
  std::string address;   // with the port that was chosen: of the socket, or, of several, as it was written
  int port = 0;          // of all
  std::string problem;   // what keeps it from being one, such as "is in use"; empty: it is one
};

// An IPv6 wildcard serves IPv4 as well, unless that has a listener of its own.
enum class Wildcard { kBothFamilies, kIpv6Only };

// `address`: host:port or [v6]:port. Port 0: any free one. Families that the machine does not have are left out, if
// one is there.
TcpListeners ListenTcp(const std::string& address, Wildcard wildcard, int backlog);

}  // namespace softmax::server
