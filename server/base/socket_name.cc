#include "server/base/socket_name.h"

#include <netdb.h>
#include <netinet/in.h>

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

std::optional<PeerAddress> AddressOfPeer(int fd) {
  constexpr std::size_t kV4Bytes = 4;
  constexpr std::size_t kMappedV4At = 12;
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return std::nullopt;
  if (name.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(name);
    return PeerAddress{{reinterpret_cast<const char*>(&v4.sin_addr), kV4Bytes}, ntohs(v4.sin_port)};
  }
  if (name.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name);
  const std::string ip(reinterpret_cast<const char*>(v6.sin6_addr.s6_addr), sizeof(v6.sin6_addr.s6_addr));
  return PeerAddress{IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) ? ip.substr(kMappedV4At) : ip, ntohs(v6.sin6_port)};
}

std::string PeerNetwork(int fd) {
  constexpr std::size_t kV6NetworkBytes = 8;
  const std::optional<PeerAddress> peer = AddressOfPeer(fd);
  return peer ? peer->ip.substr(0, kV6NetworkBytes) : "";
}

}  // namespace softmax::server
