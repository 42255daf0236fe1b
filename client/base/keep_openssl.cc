#include "client/base/keep_openssl.h"

#include <openssl/crypto.h>

namespace softmax::client {

void KeepOpenSsl() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

}  // namespace softmax::client
