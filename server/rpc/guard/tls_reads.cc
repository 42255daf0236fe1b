#include "server/rpc/guard/tls_reads.h"

#include <dlfcn.h>
#include <openssl/ssl.h>

#include <memory>
#include <optional>

#include "server/rpc/guard/read_guard.h"

namespace softmax::server {

// Where an SSL keeps its account. (Of ReadGuard, but OpenSSL's types need not be known where that is used.)
struct TlsSessions {
  static void Expect(int fd) { coming() = ReadGuard::AccountOf(fd); }

  // The connection whose session comes next on this thread.
  static std::optional<ReadGuard::Account>& coming() {
    thread_local std::optional<ReadGuard::Account> account;
    return account;
  }

  static int Index() {
    static const int index = SSL_get_ex_new_index(0, nullptr, &TlsSessions::Made, nullptr, &TlsSessions::Freed);
    return index;
  }

  // Called by SSL_new, on its thread.
  static void Made(void* /*ssl*/, void* /*value*/, CRYPTO_EX_DATA* data, int index, long /*argument*/,
                   void* /*pointer*/) {
    std::optional<ReadGuard::Account>& account = coming();
    if (!account.has_value()) return;
    auto kept = std::make_unique<ReadGuard::Account>(*account);
    account.reset();
    if (CRYPTO_set_ex_data(data, index, kept.get()) != 1) return;  // no memory: it stays unbound, and nothing passes
    ReadGuard::SetBound(*kept.release());
  }

  static void Freed(void* /*ssl*/, void* account, CRYPTO_EX_DATA* /*data*/, int /*index*/, long /*argument*/,
                    void* /*pointer*/) {
    delete static_cast<ReadGuard::Account*>(account);
  }
};

void PrepareTls() { (void)TlsSessions::Index(); }

TlsScope::TlsScope(int fd) { TlsSessions::Expect(fd); }
TlsScope::~TlsScope() { TlsSessions::coming().reset(); }

// What the caller is told: how many bytes there are, or that the connection is broken.
int GuardedRead(SSL* ssl, void* buffer, int got) {
  if (got <= 0) return got;
  // None: a session of somebody else's in this process, a client's for example. One of a connection that is watched
  // gets no bytes without (ReadGuard::Passes).
  const auto* const account = static_cast<const ReadGuard::Account*>(SSL_get_ex_data(ssl, TlsSessions::Index()));
  if (account == nullptr) return got;
  return ReadGuard::Passes(*account, {static_cast<char*>(buffer), static_cast<std::size_t>(got)}) ? got : -1;
}

int GuardedWrite(SSL* ssl, const void* buffer, int sent) {
  if (sent <= 0) return sent;
  const auto* const account = static_cast<const ReadGuard::Account*>(SSL_get_ex_data(ssl, TlsSessions::Index()));
  if (account != nullptr) {
    ReadGuard::Sent(*account, {static_cast<const char*>(buffer), static_cast<std::size_t>(sent)});
  }
  return sent;
}

}  // namespace softmax::server

#if defined(SOFTMAX_STATIC_TLS)
// The linker gives these names (--wrap).
extern "C" int __real_SSL_read(SSL* ssl, void* buffer, int size);
extern "C" int __wrap_SSL_read(SSL* ssl, void* buffer, int size) {
  return softmax::server::GuardedRead(ssl, buffer, __real_SSL_read(ssl, buffer, size));
}
extern "C" int __real_SSL_write(SSL* ssl, const void* buffer, int size);
extern "C" int __wrap_SSL_write(SSL* ssl, const void* buffer, int size) {
  return softmax::server::GuardedWrite(ssl, buffer, __real_SSL_write(ssl, buffer, size));
}
#else
extern "C" int SSL_read(SSL* ssl, void* buffer, int size) {
  static auto* const real = reinterpret_cast<int (*)(SSL*, void*, int)>(dlsym(RTLD_NEXT, "SSL_read"));
  return softmax::server::GuardedRead(ssl, buffer, real(ssl, buffer, size));
}
extern "C" int SSL_write(SSL* ssl, const void* buffer, int size) {
  static auto* const real = reinterpret_cast<int (*)(SSL*, const void*, int)>(dlsym(RTLD_NEXT, "SSL_write"));
  return softmax::server::GuardedWrite(ssl, buffer, real(ssl, buffer, size));
}
#endif
