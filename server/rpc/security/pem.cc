#include "server/rpc/security/pem.h"

#include <openssl/pem.h>

namespace softmax::server {
namespace {

int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

}  // namespace

Memory MemoryWith(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

Certificate ReadCertificate(BIO* pem) {
  bool ignored = false;
  return Certificate(PEM_read_bio_X509(pem, nullptr, &NoPassword, &ignored), X509_free);
}

PrivateKey ReadPrivateKey(BIO* pem, bool* encrypted) {
  return PrivateKey(PEM_read_bio_PrivateKey(pem, nullptr, &NoPassword, encrypted), EVP_PKEY_free);
}

}  // namespace softmax::server
