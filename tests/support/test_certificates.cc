#include "tests/support/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>

namespace softmax::client {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;

void Check(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string("openssl: ") + what);
}

std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return std::string(data, static_cast<std::size_t>(size));
}

Memory MemoryWith(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

Identity ToPem(X509* certificate, EVP_PKEY* key) {
  const Memory certificate_text(BIO_new(BIO_s_mem()), BIO_free);
  const Memory key_text(BIO_new(BIO_s_mem()), BIO_free);
  Check(PEM_write_bio_X509(certificate_text.get(), certificate) == 1, "write the certificate");
  Check(PEM_write_bio_PKCS8PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
        "write the key");
  return {TextOf(certificate_text.get()), TextOf(key_text.get())};
}

void Extend(X509* certificate, int what, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
  Check(extension != nullptr, "make an extension");
  Check(X509_add_ext(certificate, extension, -1) == 1, "add an extension");
  X509_EXTENSION_free(extension);
}

Key MakeKey(const std::string& kind) {
  const std::string rsa = "RSA-";
  EVP_PKEY* key = nullptr;
  if (kind == "ED25519") {
    key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  } else if (kind.rfind(rsa, 0) == 0) {
    key = EVP_RSA_gen(static_cast<unsigned>(std::stoul(kind.substr(rsa.size()))));
  } else {
    key = EVP_EC_gen(kind.c_str());
  }
  Check(key != nullptr, "make a key");
  return Key(key, EVP_PKEY_free);
}

void Sign(X509* certificate, EVP_PKEY* key, const std::string& hash) {
  Check(X509_sign(certificate, key, hash.empty() ? nullptr : EVP_get_digestbyname(hash.c_str())) > 0, "sign");
}

Certificate Blank(const std::string& name, EVP_PKEY* key, const IdentityKind& kind) {
  static long serial = 1;
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), kind.valid_from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kind.valid_until_s);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

}  // namespace

Identity MakeAuthority(const std::string& name) { return MakeAuthority(name, {}); }

Identity MakeAuthority(const std::string& name, const IdentityKind& kind) {
  const Key key = MakeKey(kind.key);
  const Certificate certificate = Blank(name, key.get(), kind);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  Extend(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  Sign(certificate.get(), key.get(), kind.hash);
  return ToPem(certificate.get(), key.get());
}

Identity IssueFor(const std::string& name, const Identity& authority, const std::string& ip) {
  return IssueFor(name, authority, ip, {});
}

Identity IssueFor(const std::string& name, const Identity& authority, const std::string& ip, const IdentityKind& kind) {
  const Certificate issuer(PEM_read_bio_X509(MemoryWith(authority.certificate).get(), nullptr, nullptr, nullptr),
                           X509_free);
  const Key issuer_key(PEM_read_bio_PrivateKey(MemoryWith(authority.private_key).get(), nullptr, nullptr, nullptr),
                       EVP_PKEY_free);
  Check(issuer != nullptr && issuer_key != nullptr, "read the authority");
  const Key key = MakeKey(kind.key);
  const Certificate certificate = Blank(name, key.get(), kind);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get()));
  Extend(certificate.get(), NID_subject_alt_name, "DNS:" + name + (ip.empty() ? "" : ",IP:" + ip));
  if (!kind.usage.empty()) Extend(certificate.get(), NID_ext_key_usage, kind.usage);
  Sign(certificate.get(), issuer_key.get(), kind.hash);
  return ToPem(certificate.get(), key.get());
}

}  // namespace softmax::client
