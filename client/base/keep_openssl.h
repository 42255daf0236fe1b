#pragma once

namespace softmax::client {

// At the begin of main: OpenSSL keeps what it has until the process is gone. By itself it frees its locks in exit,
// where a thread of gRPC may still be in a handshake, and crashes.
void KeepOpenSsl();

}  // namespace softmax::client
