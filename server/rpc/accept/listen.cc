#include "server/rpc/accept/listen.h"

#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "server/base/address.h"
#include "server/base/socket_name.h"

namespace softmax::server {
namespace {

constexpr int kBacklog = 1024;
constexpr int kSocketFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

absl::Status Failure(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::Status Failure(const std::string& address, int error) {
  return Failure(address, error == EADDRINUSE ? "the address is in use" : std::strerror(error));
}

// A socket file that nobody listens on is left over from a killed server, and may be replaced.
bool IsStale(const sockaddr_un& name) {
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool refused =
      connect(probe, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 && errno == ECONNREFUSED;
  close(probe);
  return refused;
}

absl::StatusOr<ListeningSocket> ListenUnix(const std::string& address, const std::string& path, unsigned mode) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(name.sun_path)) {
    return Failure(address, absl::StrCat("the path has ", path.size(), " characters; 1 to ", sizeof(name.sun_path) - 1,
                                         " are possible"));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return Failure(address, "a file that is no socket is there");
    if (!IsStale(name)) return Failure(address, EADDRINUSE);
    unlink(path.c_str());
  }
  ListeningSocket result;
  result.address = address;
  result.unix_path = path;
  result.fd = socket(AF_UNIX, kSocketFlags, 0);
  if (result.fd < 0) return Failure(address, errno);
  // The file gets the socket's own mode, less the umask, and then exactly what was asked for; nobody can connect before
  // listen.
  fchmod(result.fd, mode);
  if (bind(result.fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 || chmod(path.c_str(), mode) != 0 ||
      listen(result.fd, kBacklog) != 0) {
    const int error = errno;
    close(result.fd);
    return Failure(address, error);
  }
  return result;
}

absl::StatusOr<ListeningSocket> ListenAt(const std::string& address, const addrinfo& where) {
  const int fd = socket(where.ai_family, kSocketFlags, 0);
  if (fd < 0) return Failure(address, errno);
  const int one = 1;
  // Not SO_REUSEPORT: a second, forgotten server would share the port silently.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(fd, where.ai_addr, where.ai_addrlen) != 0 || listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    return Failure(address, error);
  }
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length);
  return ListeningSocket{fd, SocketName(name, length), ""};
}

absl::StatusOr<ListeningSocket> ListenTcp(const std::string& address) {
  const auto pieces = SplitHostPort(address);
  if (!pieces) return Failure(address, "expected host:port or unix:/path");
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(std::string(pieces->host).c_str(), std::string(pieces->port).c_str(), &hints, &found);
  if (error != 0) return Failure(address, gai_strerror(error));
  absl::StatusOr<ListeningSocket> result = ListenAt(address, *found);
  freeaddrinfo(found);
  return result;
}

}  // namespace

absl::StatusOr<ListeningSocket> Listen(const std::string& address, unsigned unix_mode) {
  if (const auto path = UnixPath(address)) return ListenUnix(address, std::string(*path), unix_mode);
  return ListenTcp(address);
}

}  // namespace softmax::server
