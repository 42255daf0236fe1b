// Stands before OpenSSL's SSL_read, by which gRPC gets what a TLS client sent (read_guard.h).
#include <dlfcn.h>
#include <openssl/ssl.h>

#include "server/rpc/guard/read_guard.h"

namespace softmax::server {
namespace {

constexpr std::size_t kRandomBytes = 32;

void FreeAccount(void* /*ssl*/, void* account, CRYPTO_EX_DATA* /*data*/, int /*index*/, long /*value*/,
                 void* /*pointer*/) {
  delete static_cast<ReadGuard::Account*>(account);
}

// Where an SSL keeps its account.
int Index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, FreeAccount);
  return index;
}

const ReadGuard::Account& AccountOf(SSL* ssl) {
  auto* account = static_cast<ReadGuard::Account*>(SSL_get_ex_data(ssl, Index()));
  if (account == nullptr) {
    unsigned char random[kRandomBytes];
    const std::size_t bytes = SSL_get_client_random(ssl, random, sizeof(random));
    account = new ReadGuard::Account(ReadGuard::Claim({reinterpret_cast<const char*>(random), bytes}));
    SSL_set_ex_data(ssl, Index(), account);
  }
  return *account;
}

}  // namespace

void ReadGuard::PrepareTls() { (void)Index(); }

// What the caller is told: so many bytes, or that the connection is broken.
int GuardedRead(SSL* ssl, void* buffer, int got) {
  if (got <= 0 || SSL_is_server(ssl) == 0) return got;
  return ReadGuard::Passes(AccountOf(ssl), {static_cast<const char*>(buffer), static_cast<std::size_t>(got)}) ? got
                                                                                                              : -1;
}

}  // namespace softmax::server

#if defined(SOFTMAX_STATIC_TLS)
// The linker gives these names (--wrap).
extern "C" int __real_SSL_read(SSL* ssl, void* buffer, int size);
extern "C" int __wrap_SSL_read(SSL* ssl, void* buffer, int size) {
  return softmax::server::GuardedRead(ssl, buffer, __real_SSL_read(ssl, buffer, size));
}
#else
extern "C" int SSL_read(SSL* ssl, void* buffer, int size) {
  static auto* const real = reinterpret_cast<int (*)(SSL*, void*, int)>(dlsym(RTLD_NEXT, "SSL_read"));
  return softmax::server::GuardedRead(ssl, buffer, real(ssl, buffer, size));
}
#endif
