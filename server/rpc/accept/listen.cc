#include "server/rpc/accept/listen.h"

#include <absl/strings/str_cat.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/address.h"

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

absl::StatusOr<Listening> ListenUnix(const std::string& address, const std::string& path, unsigned mode) {
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
  const int fd = socket(AF_UNIX, kSocketFlags, 0);
  if (fd < 0) return Failure(address, errno);
  // The file gets the socket's own mode, less the umask, and then exactly what was asked for; nobody can connect before
  // listen.
  fchmod(fd, mode);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 || chmod(path.c_str(), mode) != 0 ||
      listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    return Failure(address, error);
  }
  return Listening{{fd}, address, path};
}

}  // namespace

absl::StatusOr<Listening> Listen(const std::string& address, unsigned unix_mode, Wildcard wildcard) {
  if (const auto path = UnixPath(address)) return ListenUnix(address, std::string(*path), unix_mode);
  TcpListeners listeners = ListenTcp(address, wildcard, kBacklog);
  if (!listeners.problem.empty()) return Failure(address, "the address " + listeners.problem);
  return Listening{std::move(listeners.fds), std::move(listeners.address), ""};
}

}  // namespace softmax::server
