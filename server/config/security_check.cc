#include "server/config/security_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "server/base/file_mode.h"
#include "server/config/check.h"

namespace softmax::server {
namespace {

absl::Status Refuse(const std::string& text) { return absl::InvalidArgumentError(text); }

absl::Status CheckReadable(const std::string& flag, const std::string& path, bool secret) {
  if (!IsSet(path)) return absl::OkStatus();
  const std::string shown = flag + "=" + path;
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Refuse(shown + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return Refuse(shown + ": is not a file");
  if (access(path.c_str(), R_OK) != 0) return Refuse(shown + ": " + std::strerror(errno));
  if (const std::string problem = OthersProblem(path, info.st_mode); secret && !problem.empty()) {
    return Refuse(shown + ": " + problem);
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const Config& c) {
  if (IsSet(c.tls_cert) != IsSet(c.tls_key)) {
    return Refuse("--tls-cert=" + c.tls_cert + " and --tls-key=" + c.tls_key +
                  ": a certificate needs its key, and a key its certificate");
  }
  if (IsSet(c.tls_client_ca) && !IsSet(c.tls_cert)) {
    return Refuse("--tls-client-ca=" + c.tls_client_ca +
                  " without --tls-cert and --tls-key: clients show certificates "
                  "only inside TLS");
  }
  if (!IsSet(c.tls_cert)) return absl::OkStatus();
  for (const std::string& text : c.address) {
    const auto address = ParseAddress(text);
    if (address.ok() && !address->is_unix()) return absl::OkStatus();
  }
  return Refuse("--tls-cert=" + c.tls_cert + ": every --address is a unix socket, which does not speak TLS");
}

absl::Status CheckTokens(const Config& c) {
  if (!IsSet(c.token_file) || IsSet(c.tls_cert)) return absl::OkStatus();
  for (const std::string& text : c.address) {
    const auto address = ParseAddress(text);
    if (address.ok() && !address->is_unix() && !address->IsLoopback()) {
      return Refuse("--token-file=" + c.token_file + " with --address=" + text +
                    " and without --tls-cert: tokens would cross the network in the clear");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseSocketMode(const std::string& text, unsigned* mode) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || *mode > 0777 || (*mode & 0600) != 0600) {
    return Refuse("--unix-socket-mode=" + text + ": expected octal permissions such as 0600, 0660 or 0666");
  }
  return absl::OkStatus();
}

absl::Status CheckSecurity(const Config& config) {
  unsigned mode = 0;
  for (const absl::Status& status :
       {ParseSocketMode(config.unix_socket_mode, &mode), CheckTls(config), CheckTokens(config),
        CheckReadable("--tls-cert", config.tls_cert, false), CheckReadable("--tls-key", config.tls_key, true),
        CheckReadable("--tls-client-ca", config.tls_client_ca, false),
        CheckReadable("--token-file", config.token_file, true)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace softmax::server
