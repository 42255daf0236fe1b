#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>

#include "common/base/mutex.h"
#include "server/config/config.h"
#include "server/rpc/security/tls_files.h"
#include "server/rpc/security/token_check.h"

namespace softmax::server {

// What decides who may come in: certificates and tokens, as the configuration names them, read again when they change.
// Thread-safe.
class Secrets {
 public:
  // INVALID_ARGUMENT that names the flag, the file and what is wrong.
  static absl::StatusOr<std::unique_ptr<Secrets>> Load(const Config& config);

  const TlsFiles* tls() const { return tls_.get(); }      // null: plain text
  const Tokens* tokens() const { return tokens_.get(); }  // null: everybody may come in

  // Looks for new files and logs what it finds; the last good ones stay in force.
  void Refresh() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Mutex mu_;  // one look at a time
  std::unique_ptr<TlsFiles> tls_;
  std::unique_ptr<Tokens> tokens_;
};

}  // namespace softmax::server
