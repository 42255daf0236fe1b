#pragma once

#include <string>

namespace softmax::server {

struct UnixListener {
  int fd = -1;          // listening, non-blocking, close-on-exec; its file is to be removed at the end
  std::string problem;  // why there is none, such as "the address is in use"; empty: there is one
};

// `type`: SOCK_STREAM or SOCK_SEQPACKET. The file gets `mode` before anybody can connect; one left over from a dead
// server is replaced, a live one's is "in use".
UnixListener ListenUnix(const std::string& path, int type, unsigned mode, int backlog);

}  // namespace softmax::server
