#include "server/rpc/accept/listen.h"

#include <absl/strings/str_cat.h>
#include <sys/socket.h>

#include "common/base/address.h"
#include "server/base/unix_listen.h"

namespace softmax::server {
namespace {

constexpr int kBacklog = 1024;

absl::Status Failure(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

}  // namespace

absl::StatusOr<Listening> Listen(const std::string& address, unsigned unix_mode, Wildcard wildcard) {
  if (const auto path = UnixPath(address)) {
    const UnixListener listener = ListenUnix(std::string(*path), SOCK_STREAM, unix_mode, kBacklog);
    if (!listener.problem.empty()) return Failure(address, listener.problem);
    return Listening{{listener.fd}, address, std::string(*path)};
  }
  TcpListeners listeners = ListenTcp(address, wildcard, kBacklog);
  if (!listeners.problem.empty()) return Failure(address, "the address " + listeners.problem);
  return Listening{std::move(listeners.fds), std::move(listeners.address), ""};
}

}  // namespace softmax::server
