#include "tests/client/support/test_certificates.h"

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

Certificate Blank(const std::string& name, EVP_PKEY* key) {
  static long serial = 1;
  Certificate certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

}  // namespace

Identity MakeAuthority(const std::string& name) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate certificate = Blank(name, key.get());
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  Extend(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  Check(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "sign");
  return ToPem(certificate.get(), key.get());
}

Identity IssueFor(const std::string& name, const Identity& authority, const std::string& ip) {
  const Certificate issuer(PEM_read_bio_X509(MemoryWith(authority.certificate).get(), nullptr, nullptr, nullptr),
                           X509_free);
  const Key issuer_key(PEM_read_bio_PrivateKey(MemoryWith(authority.private_key).get(), nullptr, nullptr, nullptr),
                       EVP_PKEY_free);
  Check(issuer != nullptr && issuer_key != nullptr, "read the authority");
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate certificate = Blank(name, key.get());
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get()));
  Extend(certificate.get(), NID_subject_alt_name, "DNS:" + name + (ip.empty() ? "" : ",IP:" + ip));
  Check(X509_sign(certificate.get(), issuer_key.get(), EVP_sha256()) > 0, "sign");
  return ToPem(certificate.get(), key.get());
}

}  // namespace softmax::client
