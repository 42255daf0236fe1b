#include "server/rpc/door.h"

#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <grpcpp/server_posix.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>

namespace softmax::server {

// gRPC's server binds a connection that it did not accept itself to the completion queue number rand() % queues, so
// that a few busy connections may all land on one thread. A seed chosen beforehand makes that rand() say the queue
// whose turn it is; if another thread draws in between, the choice is random again, which is no worse than without.
PlainDoor::PlainDoor(grpc::Server* server, std::uint32_t queues) : server_(server) {
  for (std::uint32_t queue = 0; queue < queues; ++queue) {
    unsigned seed = 1;
    while (true) {
      srand(seed);
      if (static_cast<unsigned>(rand()) % queues == queue) {
        break;
      }
      ++seed;
    }
    seeds_.push_back(seed);
  }
}

std::string PlainDoor::PeerOf(int fd) const { return absl::StrCat("fd:", fd); }

void PlainDoor::Enter(int fd) {
  srand(seeds_[next_]);
  next_ = (next_ + 1) % seeds_.size();
  grpc::AddInsecureChannelFromFd(server_, fd);
}

std::string TlsDoor::PeerOf(int fd) const {
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

void TlsDoor::Enter(int fd) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = -1;
  parameters.fd = fd;
  acceptor_->HandleNewConnection(&parameters);
}

}  // namespace softmax::server
