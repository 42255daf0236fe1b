#include "server/rpc/security/tls_files.h"

#include <grpc/grpc_security.h>

#include <atomic>
#include <utility>
#include <vector>

#include "server/rpc/security/tls_trial.h"

namespace softmax::server {
namespace {

// gRPC asks before each handshake whether there is something new. (Its own file watcher would take a new certificate
// beside the old key, and fail handshakes until the other file comes.)
class Reloading final : public grpc::ServerCredentials {
 public:
  explicit Reloading(const TlsFiles& files) : files_(files) {
    const auto request = files.wants_client_certificates() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                           : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    core_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, &Reloading::Fetch, this));
  }
  ~Reloading() override { grpc_server_credentials_release(core_); }

  // Tokens are checked in the calls.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), core_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<Reloading*>(self)->FetchNew(config);
  }

  // On any gRPC thread.
  grpc_ssl_certificate_config_reload_status FetchNew(grpc_ssl_server_certificate_config** config) {
    const std::shared_ptr<const TlsFiles::Set> set = files_.current();
    if (given_.exchange(set->version) == set->version) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {set->pem.key.c_str(), set->pem.certificate.c_str()};
    // gRPC insists on authorities even where it asks for no certificate, and then does not look at them.
    const std::string& authorities =
        files_.wants_client_certificates() ? set->pem.client_authorities : set->pem.certificate;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const TlsFiles& files_;
  std::atomic<std::uint64_t> given_{0};
  grpc_server_credentials* core_ = nullptr;
};

}  // namespace

TlsFiles::TlsFiles(const Paths& paths)
    : paths_(paths),
      changes_(paths.client_authorities.empty()
                   ? std::vector<std::string>{paths.certificate, paths.key}
                   : std::vector<std::string>{paths.certificate, paths.key, paths.client_authorities}) {}

absl::StatusOr<std::unique_ptr<TlsFiles>> TlsFiles::Load(const Paths& paths) {
  std::unique_ptr<TlsFiles> files(new TlsFiles(paths));
  if (absl::StatusOr<bool> loaded = files->Refresh(); !loaded.ok()) return loaded.status();
  return files;
}

absl::StatusOr<TlsFiles::Pem> TlsFiles::Read() const {
  Pem pem;
  const auto read = [](const std::string& path, std::string* text, Readers readers = Readers::kAnybody) {
    absl::StatusOr<std::string> content = ReadSecretFile(path, readers);
    if (content.ok()) *text = std::move(*content);
    return content.status();
  };
  if (absl::Status status = read(paths_.certificate, &pem.certificate); !status.ok()) return status;
  if (absl::Status status = read(paths_.key, &pem.key, Readers::kOwners); !status.ok()) return status;
  if (wants_client_certificates()) {
    if (absl::Status status = read(paths_.client_authorities, &pem.client_authorities); !status.ok()) return status;
  }
  if (absl::Status status = CheckPem(paths_, pem); !status.ok()) return status;
  return pem;
}

absl::StatusOr<bool> TlsFiles::Refresh() {
  // Before reading: what changes meanwhile is seen at the next look. What cannot be used may be usable later, as a
  // certificate is that is not valid yet.
  const bool changed = changes_.Look();
  if (!changed && refused_.ok()) return false;
  absl::StatusOr<Pem> pem = Read();
  if (!pem.ok()) {
    if (!changed && refused_ == pem.status()) return false;
    refused_ = pem.status();
    return refused_;
  }
  refused_ = absl::OkStatus();
  auto next = std::make_shared<Set>();
  next->pem = std::move(*pem);
  MutexLock lock(mu_);
  next->version = current_ == nullptr ? 1 : current_->version + 1;
  current_ = std::move(next);
  return true;
}

std::shared_ptr<const TlsFiles::Set> TlsFiles::current() const {
  MutexLock lock(mu_);
  return current_;
}

std::shared_ptr<grpc::ServerCredentials> ReloadingCredentials(const TlsFiles& files) {
  return std::make_shared<Reloading>(files);
}

}  // namespace softmax::server
