#include "server/rpc/security/tls_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <atomic>

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

std::shared_ptr<grpc::ServerCredentials> ReloadingCredentials(const TlsFiles& files) {
  return std::make_shared<Reloading>(files);
}

}  // namespace softmax::server
