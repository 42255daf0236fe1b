#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "server/base/tcp_listen.h"

namespace softmax::server {

struct Listening {
  std::vector<int> fds;   // non-blocking, close-on-exec; one, or more for a name
  std::string address;    // with the port that was chosen
  std::string unix_path;  // for unix sockets: the file to remove at the end
};

// Listens on host:port, [v6]:port or unix:/path. The error says the address and why: in use, not found, no permission.
// A unix socket's file gets `unix_mode` before anybody can connect; one left over from a dead server is replaced, a
// live one's is "in use".
absl::StatusOr<Listening> Listen(const std::string& address, unsigned unix_mode = 0600,
                                 Wildcard wildcard = Wildcard::kBothFamilies);

}  // namespace softmax::server
