#include "server/base/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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
constexpr int kBacklog = 1024;

Listening Failure(const std::string& problem) { return {.problem = problem}; }

Listening Failure(int error) { return Failure(error == EADDRINUSE ? "the address is in use" : std::strerror(error)); }

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
int ListenAt(const addrinfo& where, int port, Wildcard wildcard, int backlog, Listening* to) {
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
int ListenAtAll(const std::vector<Found>& lists, Wildcard wildcard, int backlog, Listening* to) {
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

// A socket file that nobody listens on is left over from a killed server, and may be replaced.
bool IsStale(const sockaddr_un& name, int type) {
  const int probe = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool refused =
      connect(probe, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 && errno == ECONNREFUSED;
  close(probe);
  return refused;
}

}  // namespace

Listening ListenTcp(const std::string& address, Wildcard wildcard, int backlog) {
  Listening listening;
  const auto pieces = SplitHostPort(address);
  if (!pieces) return Failure("is not host:port");
  const std::string host(pieces->host);
  const std::string port(pieces->port);
  // Not what the resolver says, which may know one of the two only.
  const auto hosts = host == "localhost" ? std::vector<std::string>{"127.0.0.1", "::1"} : std::vector{host};
  std::vector<Found> lists;
  for (const std::string& name : hosts) {
    const std::string problem = Resolve(name, port, &lists.emplace_back(nullptr, &freeaddrinfo));
    if (!problem.empty()) return Failure(problem);
  }
  int error = EADDRINUSE;
  for (int i = 0; i < (port == "0" ? kTries : 1) && error == EADDRINUSE; ++i) {
    error = ListenAtAll(lists, wildcard, backlog, &listening);
  }
  if (error == EADDRINUSE) return Failure("is in use");
  if (error != 0) return Failure(std::string("cannot be bound: ") + std::strerror(error));
  if (listening.fds.size() > 1) listening.address = host + ":" + std::to_string(listening.port);
  return listening;
}

Listening ListenUnix(const std::string& path, int type, unsigned mode, int backlog) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(name.sun_path)) {
    return Failure("the path has " + std::to_string(path.size()) + " characters; 1 to " +
                   std::to_string(sizeof(name.sun_path) - 1) + " are possible");
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return Failure("a file that is no socket is there");
    if (!IsStale(name, type)) return Failure(EADDRINUSE);
    unlink(path.c_str());
  }
  const int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Failure(errno);
  // The file gets the socket's own mode, less the umask, and then exactly what was asked for; nobody can connect before
  // listen.
  fchmod(fd, mode);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 || chmod(path.c_str(), mode) != 0 ||
      listen(fd, backlog) != 0) {
    const int error = errno;
    close(fd);
    return Failure(error);
  }
  return {.fds = {fd}, .address = "unix:" + path, .unix_path = path};
}

Listening Listen(const std::string& address, unsigned unix_mode, Wildcard wildcard) {
  if (const auto path = UnixPath(address)) return ListenUnix(std::string(*path), SOCK_STREAM, unix_mode, kBacklog);
  Listening listening = ListenTcp(address, wildcard, kBacklog);
  if (!listening.problem.empty()) listening.problem = "the address " + listening.problem;
  return listening;
}

}  // namespace softmax::server
