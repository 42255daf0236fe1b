#include "server/app/secrets.h"

#include <absl/strings/str_cat.h>

#include "server/base/log.h"

namespace softmax::server {
namespace {

absl::Status Named(const char* flags, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(flags, ": ", std::string(status.message())));
}

template <typename Source>
void RefreshOne(const char* what, Source* source) {
  if (source == nullptr) return;
  const absl::StatusOr<bool> changed = source->Refresh();
  if (!changed.ok()) {
    LogError(what, " changed and cannot be used, the last good one stays: ", changed.status().message());
  } else if (*changed) {
    LogInfo(what, " changed; new ", what[0] == 'c' ? "connections" : "calls", " see the new one");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Secrets>> Secrets::Load(const Config& config) {
  auto secrets = std::make_unique<Secrets>();
  if (IsSet(config.tls_cert)) {
    TlsFiles::Paths paths{config.tls_cert, config.tls_key, IsSet(config.tls_client_ca) ? config.tls_client_ca : ""};
    absl::StatusOr<std::unique_ptr<TlsFiles>> tls = TlsFiles::Load(paths);
    if (!tls.ok()) return Named("--tls-cert, --tls-key, --tls-client-ca", tls.status());
    secrets->tls_ = std::move(*tls);
  }
  if (IsSet(config.token_file)) {
    absl::StatusOr<std::unique_ptr<Tokens>> tokens = Tokens::Load(config.token_file);
    if (!tokens.ok()) return Named("--token-file", tokens.status());
    secrets->tokens_ = std::move(*tokens);
  }
  return secrets;
}

void Secrets::Refresh() {
  MutexLock lock(mu_);
  RefreshOne("certificate", tls_.get());
  RefreshOne("token file", tokens_.get());
}

}  // namespace softmax::server
