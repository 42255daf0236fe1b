#include "server/base/unix_listen.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softmax::server {
namespace {

UnixListener Failure(int error) { return {-1, error == EADDRINUSE ? "the address is in use" : std::strerror(error)}; }

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

UnixListener ListenUnix(const std::string& path, int type, unsigned mode, int backlog) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(name.sun_path)) {
    return {-1, "the path has " + std::to_string(path.size()) + " characters; 1 to " +
                    std::to_string(sizeof(name.sun_path) - 1) + " are possible"};
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) return {-1, "a file that is no socket is there"};
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
  return {fd, ""};
}

}  // namespace softmax::server
