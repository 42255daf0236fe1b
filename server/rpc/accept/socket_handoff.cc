#include "server/rpc/accept/socket_handoff.h"

#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <grpcpp/server_posix.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "server/rpc/accept/socket_poll.h"
#include "server/rpc/guard/read_guard.h"
#include "server/rpc/guard/tls_reads.h"

namespace softmax::server {

std::size_t LeastLoaded::Take() {
  std::size_t best = (last_ + 1) % open_.size();
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const std::size_t candidate = (last_ + 1 + i) % open_.size();
    if (open_[candidate] < open_[best]) best = candidate;
  }
  ++open_[best];
  last_ = best;
  return best;
}

std::string PlainHandoff::PeerOf(int fd) const { return absl::StrCat("fd:", fd); }

void PlainHandoff::HandOff(int fd, std::size_t server) {
  ForgetKeptSocket(fd);
  grpc::AddInsecureChannelFromFd(servers_[server], fd);
}

std::string TlsHandoff::PeerOf(int fd) const {
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  char text[INET6_ADDRSTRLEN] = "";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) return "unknown";
  if (name.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &name, sizeof(v4));
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &name, sizeof(v6));
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(v6.sin6_port));
}

void TlsHandoff::HandOff(int fd, std::size_t server) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = -1;
  parameters.fd = fd;
  ForgetKeptSocket(fd);
  const TlsScope its_session(fd);
  acceptors_[server]->HandleNewConnection(&parameters);
}

}  // namespace softmax::server
