#include "server/rpc/accept/peer_network.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace softmax::server {

std::string PeerNetwork(int fd) {
  constexpr std::size_t kV4Bytes = 4;
  constexpr std::size_t kV6NetworkBytes = 8;
  constexpr std::size_t kMappedV4At = 12;
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return "";
  if (name.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &name, sizeof(v4));
    return {reinterpret_cast<const char*>(&v4.sin_addr), kV4Bytes};
  }
  if (name.ss_family != AF_INET6) return "";
  sockaddr_in6 v6{};
  std::memcpy(&v6, &name, sizeof(v6));
  const auto* const bytes = reinterpret_cast<const char*>(v6.sin6_addr.s6_addr);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return {bytes + kMappedV4At, kV4Bytes};
  return {bytes, kV6NetworkBytes};
}

}  // namespace softmax::server
