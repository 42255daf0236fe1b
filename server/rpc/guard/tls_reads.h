#pragma once

// What stands before OpenSSL's SSL_read and SSL_write, by which gRPC gets what a TLS client sent and answers it: it
// asks the ReadGuard of the connection.
namespace softmax::server {

// Makes OpenSSL give sessions their account, and the linker take the SSL_read of this library.
void PrepareTls();

// The TLS session that this thread makes while this lives is that of the connection with this descriptor, whatever
// its client sends: gRPC makes it when it is handed the socket, before it reads.
class TlsScope {
 public:
  explicit TlsScope(int fd);
  ~TlsScope();
  TlsScope(const TlsScope&) = delete;
  TlsScope& operator=(const TlsScope&) = delete;
};

}  // namespace softmax::server
