#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace softmax::server {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;

Memory MemoryWith(const std::string& text);

// Null: there is none, or no further one.
Certificate ReadCertificate(BIO* pem);
// Null: there is none. `*encrypted`: it has a password, and nobody is there to type it.
PrivateKey ReadPrivateKey(BIO* pem, bool* encrypted);

}  // namespace softmax::server
