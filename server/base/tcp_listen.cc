#include "server/base/tcp_listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/address.h"
#include "server/base/socket_name.h"

namespace softmax::server {
namespace {

// Of a free port that is free for one family only.
constexpr int kTries = 16;

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string Resolve(const std::string& host, const std::string& port, Found* found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  found->reset(list);
  return error == 0 ? "" : std::string("cannot be resolved: ") + gai_strerror(error);
}

int PortOf(const sockaddr_storage& name) {
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

bool IsMissingFamily(int error) { return error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == EPROTONOSUPPORT; }

// 0, or why not.
int ListenAt(const addrinfo& where, int port, Wildcard wildcard, int backlog, TcpListeners* to) {
  sockaddr_storage name{};
  std::memcpy(&name, where.ai_addr, where.ai_addrlen);
  auto& bound_port = where.ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                                 : reinterpret_cast<sockaddr_in&>(name).sin_port;
  if (port != 0) bound_port = htons(static_cast<std::uint16_t>(port));
  const int fd = socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int one = 1;
  // Not SO_REUSEPORT: a second, forgotten server would share the port silently.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (where.ai_family == AF_INET6) {  // whatever net.ipv6.bindv6only says
    const int only = wildcard == Wildcard::kIpv6Only ? 1 : 0;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  socklen_t length = sizeof(name);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), where.ai_addrlen) != 0 || listen(fd, backlog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    const int error = errno;
    close(fd);
    return error;
  }
  to->fds.push_back(fd);
  to->port = PortOf(name);
  to->address = SocketName(name, length);
  return 0;
}

// 0, or why not all that can be had is listened on; then none is.
int ListenAtAll(const std::vector<Found>& lists, Wildcard wildcard, int backlog, TcpListeners* to) {
  int missing = 0;
  for (const Found& list : lists) {
    for (const addrinfo* where = list.get(); where != nullptr; where = where->ai_next) {
      const int error = ListenAt(*where, to->port, wildcard, backlog, to);
      if (error == 0) continue;
      if (IsMissingFamily(error)) {
        missing = error;
        continue;
      }
      for (const int fd : to->fds) close(fd);
      *to = {};
      return error;
    }
  }
  return to->fds.empty() ? missing : 0;
}

}  // namespace

TcpListeners ListenTcp(const std::string& address, Wildcard wildcard, int backlog) {
  TcpListeners listeners;
  const auto pieces = SplitHostPort(address);
  const std::string host(pieces ? pieces->host : "");
  const std::string port(pieces ? pieces->port : "");
  // Not what the resolver says, which may know one of the two only.
  const auto hosts = host == "localhost" ? std::vector<std::string>{"127.0.0.1", "::1"} : std::vector{host};
  std::vector<Found> lists;
  for (const std::string& name : hosts) {
    listeners.problem = pieces ? Resolve(name, port, &lists.emplace_back(nullptr, &freeaddrinfo)) : "is not host:port";
    if (!listeners.problem.empty()) return listeners;
  }
  int error = EADDRINUSE;
  for (int i = 0; i < (port == "0" ? kTries : 1) && error == EADDRINUSE; ++i) {
    error = ListenAtAll(lists, wildcard, backlog, &listeners);
  }
  if (error != 0) {
    listeners.problem = error == EADDRINUSE ? "is in use" : std::string("cannot be bound: ") + std::strerror(error);
  } else if (listeners.fds.size() > 1) {
    listeners.address = host + ":" + std::to_string(listeners.port);
  }
  return listeners;
}

}  // namespace softmax::server
