#include "server/rpc/security/tls_files.h"

#include <absl/strings/str_cat.h>
#include <openssl/err.h>

#include "server/rpc/security/pem.h"
#include "server/rpc/security/tls_trial.h"

namespace softmax::server {
namespace {

absl::Status Refuse(const std::string& path, const std::string& why) {
  ERR_clear_error();  // gRPC reads the same queue
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

}  // namespace

absl::Status CheckPem(const TlsFiles::Paths& paths, const TlsFiles::Pem& pem) {
  const Certificate certificate = ReadCertificate(MemoryWith(pem.certificate).get());
  if (certificate == nullptr) return Refuse(paths.certificate, "holds no certificate in PEM");
  bool encrypted = false;
  const PrivateKey key = ReadPrivateKey(MemoryWith(pem.key).get(), &encrypted);
  if (encrypted) return Refuse(paths.key, "is encrypted; the server needs a key without a password");
  if (key == nullptr) return Refuse(paths.key, "holds no private key in PEM");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Refuse(paths.key, absl::StrCat("is not the key of the certificate in ", paths.certificate));
  }
  if (const std::string problem = TlsProblem(pem.certificate, pem.key); !problem.empty()) {
    return Refuse(paths.certificate, absl::StrCat("no client could connect: ", problem));
  }
  if (paths.client_authorities.empty()) return absl::OkStatus();
  if (const std::string problem = AuthoritiesProblem(pem.client_authorities); !problem.empty()) {
    return Refuse(paths.client_authorities, problem);
  }
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

}  // namespace softmax::server
