#include "server/base/socket_name.h"

#include <netdb.h>

namespace softmax::server {

std::string SocketName(const sockaddr_storage& name, socklen_t length) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&name), length, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  return name.ss_family == AF_INET6 ? "[" + std::string(host) + "]:" + port : std::string(host) + ":" + port;
}

std::string PeerName(int fd) {
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return "unknown";
  if (name.ss_family != AF_UNIX) return SocketName(name, length);
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return "unix";
  return "unix pid " + std::to_string(credentials.pid) + " uid " + std::to_string(credentials.uid);
}

}  // namespace softmax::server
