#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "server/rpc/security/client_metadata.h"
#include "server/rpc/security/secret_file.h"
#include "server/rpc/security/token_set.h"

namespace softmax::server {

// The token file, read again when it changes; one that cannot be read leaves the last good one in force. Thread-safe.
class Tokens {
 public:
  // INVALID_ARGUMENT: the file and its line.
  static absl::StatusOr<std::unique_ptr<Tokens>> Load(const std::string& path);
  // As TlsFiles::Refresh.
  absl::StatusOr<bool> Refresh() ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<const TokenSet> current() const ABSL_LOCKS_EXCLUDED(mu_);
  // Changes with every new set.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  explicit Tokens(const std::string& path) : path_(path), changes_({path}) {}

  const std::string path_;
  FileChanges changes_;  // of the refreshing thread
  std::atomic<std::uint64_t> version_{0};
  mutable Mutex mu_;
  std::shared_ptr<const TokenSet> current_ ABSL_GUARDED_BY(mu_);
};

// Lets calls in, for one thread: it keeps the set that it saw last, so that threads share nothing but a number.
class TokenCheck {
 public:
  // `tokens` may be null: everybody may come in.
  explicit TokenCheck(const Tokens* tokens) : tokens_(tokens) {}

  // UNAUTHENTICATED: no token, or something that is none. PERMISSION_DENIED: a token that is not known.
  // `call` is a ServerContext or a RawCall.
  template <typename Call>
  absl::Status Authorize(const Call& call) {
    return tokens_ == nullptr ? absl::OkStatus() : Judge(call.client_metadata());
  }

 private:
  absl::Status Judge(const ClientMetadata& metadata);

  const Tokens* const tokens_;
  std::uint64_t version_ = 0;
  std::shared_ptr<const TokenSet> set_;
};

}  // namespace softmax::server
