#pragma once

#include <string>
#include <vector>

namespace softmax::server {

// One address that is listened on, which may be several sockets: localhost is 127.0.0.1 and ::1, and a name is all that
// it resolves to.
struct Listening {
  std::vector<int> fds;   // listening, non-blocking, close-on-exec
  std::string address;    // with the port that was chosen: of the socket, or, of several, as it was written
  int port = 0;           // of all
  std::string unix_path;  // of a unix socket: the file to remove at the end
  std::string problem;    // why it is not listened on, such as "is in use"; empty: it is
};

// An IPv6 wildcard serves IPv4 as well, unless that has a listener of its own.
enum class Wildcard { kBothFamilies, kIpv6Only };

// `address`: host:port or [v6]:port. Port 0: any free one. Families that the machine does not have are left out, if
// one is there.
Listening ListenTcp(const std::string& address, Wildcard wildcard, int backlog);

// `type`: SOCK_STREAM or SOCK_SEQPACKET. The file gets `mode` before anybody can connect; one left over from a dead
// server is replaced, a live one's is "in use".
Listening ListenUnix(const std::string& path, int type, unsigned mode, int backlog);

// As the one or the other, for streams; `address` may be unix:/path. The problem has a subject: "the address is in
// use".
Listening Listen(const std::string& address, unsigned unix_mode = 0600, Wildcard wildcard = Wildcard::kBothFamilies);

}  // namespace softmax::server
