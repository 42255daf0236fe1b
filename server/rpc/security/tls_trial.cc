#include "server/rpc/security/tls_trial.h"

#include <absl/strings/str_cat.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace softmax::server {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Session = std::unique_ptr<SSL, decltype(&SSL_free)>;

constexpr std::size_t kBuffer = 1 << 20;  // a flight of the handshake: certificates of at most 1 MiB
constexpr int kMostTurns = 16;            // of both sides; a handshake takes three

int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

Memory MemoryWith(const std::string& text) {
  return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

// Null: there is none, or no further one.
Certificate ReadCertificate(BIO* pem) {
  bool ignored = false;
  return Certificate(PEM_read_bio_X509(pem, nullptr, &NoPassword, &ignored), X509_free);
}

// Null: there is none. `*encrypted`: it has a password, and nobody is there to type it.
PrivateKey ReadPrivateKey(BIO* pem, bool* encrypted) {
  return PrivateKey(PEM_read_bio_PrivateKey(pem, nullptr, &NoPassword, encrypted), EVP_PKEY_free);
}

// gRPC's own (ssl_security_connector), unless the environment says otherwise.
const char* Ciphers() {
  const char* own = std::getenv("GRPC_SSL_CIPHER_SUITES");
  return own != nullptr && *own != 0
             ? own
             : "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256:"
               "ECDHE-RSA-AES256-GCM-SHA384";
}

// The words of OpenSSL's first error: what follows comes of it.
std::string Reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  return reason == nullptr ? "the handshake does not end" : reason;
}

bool IsAboutTrust(int error) {
  switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_UNTRUSTED:
      return true;
    default:
      return false;
  }
}

// Of the rest of the chain, nothing is refused here: clients may find another way to an authority they trust.
int JudgeAsClient(int good, X509_STORE_CTX* store) {
  if (good != 0) return 1;
  if (!IsAboutTrust(X509_STORE_CTX_get_error(store)) && X509_STORE_CTX_get_error_depth(store) == 0) return 0;
  X509_STORE_CTX_set_error(store, X509_V_OK);
  return 1;
}

bool UseChain(SSL_CTX* context, const std::string& pem) {
  const Memory memory = MemoryWith(pem);
  if (SSL_CTX_use_certificate(context, ReadCertificate(memory.get()).get()) != 1) return false;
  while (Certificate next = ReadCertificate(memory.get())) {
    if (SSL_CTX_add_extra_chain_cert(context, next.get()) != 1) return false;
    (void)next.release();  // the context's now
  }
  ERR_clear_error();  // the chain's end is one
  return true;
}

Context ServerContext(const std::string& certificate, const std::string& key) {
  Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  const int group = NID_X9_62_prime256v1;
  bool encrypted = false;
  const PrivateKey private_key = ReadPrivateKey(MemoryWith(key).get(), &encrypted);
  if (!UseChain(context.get(), certificate) || SSL_CTX_use_PrivateKey(context.get(), private_key.get()) != 1 ||
      SSL_CTX_set_cipher_list(context.get(), Ciphers()) != 1 || SSL_CTX_set1_groups(context.get(), &group, 1) != 1 ||
      SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) {
    context.reset();
  }
  return context;
}

// One step of one side. False: it has failed.
bool Step(SSL* session) {
  const int result = SSL_do_handshake(session);
  if (result == 1) return true;
  const int error = SSL_get_error(session, result);
  return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

std::string Shake(SSL* server, SSL* client) {
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (!Step(client)) {
      const long verdict = SSL_get_verify_result(client);
      return verdict == X509_V_OK ? Reason() : X509_verify_cert_error_string(verdict);
    }
    if (!Step(server)) return Reason();
    if (SSL_is_init_finished(client) == 1 && SSL_is_init_finished(server) == 1) return "";
  }
  return "the handshake does not end";
}

std::string HandshakeProblem(SSL_CTX* server_context) {
  const Context client_context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX_set_verify(client_context.get(), SSL_VERIFY_PEER, &JudgeAsClient);
  const Session server(SSL_new(server_context), SSL_free);
  const Session client(SSL_new(client_context.get()), SSL_free);
  BIO* server_side = nullptr;
  BIO* client_side = nullptr;
  if (BIO_new_bio_pair(&server_side, kBuffer, &client_side, kBuffer) != 1) return Reason();
  SSL_set_bio(server.get(), server_side, server_side);
  SSL_set_bio(client.get(), client_side, client_side);
  SSL_set_accept_state(server.get());
  SSL_set_connect_state(client.get());
  return Shake(server.get(), client.get());
}

// What OpenSSL asks of each certificate of a chain, by the security level of a context as gRPC has it.
int NeededBits() {
  constexpr int kBits[] = {0, 80, 112, 128, 192, 256};
  const Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  const int level = SSL_CTX_get_security_level(context.get());
  return kBits[level > 5 ? 5 : level];
}

// OpenSSL 3.0 does not serve what is signed so; 3.5 does, and its clients refuse it when they know the authority, which
// the trial's does not.
std::string SignatureProblem(X509* certificate) {
  int bits = 0;
  const bool signed_by_itself = (X509_get_extension_flags(certificate) & EXFLAG_SS) != 0;
  if (signed_by_itself || X509_get_signature_info(certificate, nullptr, nullptr, &bits, nullptr) != 1) return "";
  return bits < NeededBits() ? "ca md too weak" : "";
}

std::string AuthorityProblem(X509* authority) {
  const EVP_PKEY* const key = X509_get0_pubkey(authority);
  if (key == nullptr) return "an authority's key cannot be read";
  if (EVP_PKEY_get_security_bits(key) < NeededBits()) return "an authority's key is too small";
  if (X509_cmp_current_time(X509_get0_notAfter(authority)) < 0) return "an authority has expired";
  return "";
}

// What is wrong with a certificate chain and its key (PEM), as a handshake with oneself shows it: the server's side is
// set as gRPC sets its own, the client's trusts every issuer. OpenSSL refuses more than a look at the files can tell:
// by its security level, small keys and old hashes, anywhere in the chain. Empty: clients can connect.
std::string TlsProblem(const std::string& certificate, const std::string& key) {
  ERR_clear_error();
  const Context context = ServerContext(certificate, key);
  std::string problem = context == nullptr ? Reason() : SignatureProblem(SSL_CTX_get0_certificate(context.get()));
  if (problem.empty()) problem = HandshakeProblem(context.get());
  ERR_clear_error();  // gRPC reads the same queue
  return problem;
}

// Why none of these certificates (PEM) can vouch for a client: their keys are too small, or they have expired. Empty:
// one can.
std::string AuthoritiesProblem(const std::string& authorities) {
  const Memory memory = MemoryWith(authorities);
  std::string problem = "holds no certificate in PEM";
  while (const Certificate authority = ReadCertificate(memory.get())) {
    problem = AuthorityProblem(authority.get());
    if (problem.empty()) break;
  }
  ERR_clear_error();
  return problem;
}

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

}  // namespace softmax::server
