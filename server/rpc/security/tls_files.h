#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "server/rpc/security/secret_file.h"

namespace softmax::server {

// The server's certificate chain, its key, and the authorities of its clients, read again when a file changes. What
// does not belong together (a new certificate beside the old key, half a file) is never used: the last good set stays,
// so files may be replaced one after the other. Thread-safe.
class TlsFiles {
 public:
  struct Paths {
    std::string certificate;
    std::string key;
    std::string client_authorities;  // empty: clients need no certificate
  };
  struct Pem {
    std::string certificate;
    std::string key;
    std::string client_authorities;
  };
  struct Set {
    Pem pem;
    std::uint64_t version = 0;  // higher is newer
  };

  // INVALID_ARGUMENT that names the file and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<TlsFiles>> Load(const Paths& paths);

  // Looks at the files, a few times a minute at least. True: new connections get a new set. Not OK: a file changed and
  // the whole is not usable now; said once per change and reason.
  absl::StatusOr<bool> Refresh() ABSL_LOCKS_EXCLUDED(mu_);

  std::shared_ptr<const Set> current() const ABSL_LOCKS_EXCLUDED(mu_);
  bool wants_client_certificates() const { return !paths_.client_authorities.empty(); }

 private:
  explicit TlsFiles(const Paths& paths);
  absl::StatusOr<Pem> Read() const;

  const Paths paths_;
  FileChanges changes_;   // of the refreshing thread
  absl::Status refused_;  // likewise: what was wrong at the last look
  mutable Mutex mu_;
  std::shared_ptr<const Set> current_ ABSL_GUARDED_BY(mu_);
};

// Credentials that give each new connection the current set. `files` outlives the server.
std::shared_ptr<grpc::ServerCredentials> ReloadingCredentials(const TlsFiles& files);

}  // namespace softmax::server
