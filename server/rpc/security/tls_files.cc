#include "server/rpc/security/tls_files.h"

#include <absl/strings/str_cat.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace softmax::server {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;

Memory MemoryWith(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

// Nobody is there to type a password.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

Certificate FirstCertificate(const std::string& pem) {
  return Certificate(PEM_read_bio_X509(MemoryWith(pem).get(), nullptr, nullptr, nullptr), X509_free);
}

absl::Status Refuse(const std::string& path, const char* why) {
  ERR_clear_error();  // gRPC reads the same queue
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

}  // namespace

absl::Status CheckPem(const TlsFiles::Paths& paths, const TlsFiles::Pem& pem) {
  const Certificate certificate = FirstCertificate(pem.certificate);
  if (certificate == nullptr) return Refuse(paths.certificate, "holds no certificate in PEM");
  bool encrypted = false;
  const Key key(PEM_read_bio_PrivateKey(MemoryWith(pem.key).get(), nullptr, &NoPassword, &encrypted), EVP_PKEY_free);
  if (encrypted) return Refuse(paths.key, "is encrypted; the server needs a key without a password");
  if (key == nullptr) return Refuse(paths.key, "holds no private key in PEM");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Refuse(paths.key, absl::StrCat("is not the key of the certificate in ", paths.certificate).c_str());
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return Refuse(paths.certificate, "has expired");
  }
  if (!paths.client_authorities.empty() && FirstCertificate(pem.client_authorities) == nullptr) {
    return Refuse(paths.client_authorities, "holds no certificate in PEM");
  }
  ERR_clear_error();
  return absl::OkStatus();
}

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
  const auto read = [](const std::string& path, std::string* text) {
    absl::StatusOr<std::string> content = ReadSecretFile(path);
    if (content.ok()) *text = std::move(*content);
    return content.status();
  };
  if (absl::Status status = read(paths_.certificate, &pem.certificate); !status.ok()) return status;
  if (absl::Status status = read(paths_.key, &pem.key); !status.ok()) return status;
  if (wants_client_certificates()) {
    if (absl::Status status = read(paths_.client_authorities, &pem.client_authorities); !status.ok()) return status;
  }
  if (absl::Status status = CheckPem(paths_, pem); !status.ok()) return status;
  return pem;
}

absl::StatusOr<bool> TlsFiles::Refresh() {
  // Before reading: what changes meanwhile is seen at the next look.
  if (!changes_.Look()) return false;
  absl::StatusOr<Pem> pem = Read();
  if (!pem.ok()) return pem.status();
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

}  // namespace softmax::server
