#include "server/rpc/accept/socket_handoff.h"

#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <grpcpp/server_posix.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "server/base/socket_name.h"
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
  const std::optional<PeerAddress> peer = AddressOfPeer(fd);
  if (!peer) return "unknown";
  const bool is_v4 = peer->ip.size() == sizeof(in_addr);
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(is_v4 ? AF_INET : AF_INET6, peer->ip.data(), text, sizeof(text));
  return is_v4 ? absl::StrCat("ipv4:", text, ":", peer->port) : absl::StrCat("ipv6:%5B", text, "%5D:", peer->port);
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
