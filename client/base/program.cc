#include "client/base/program.h"

#include <openssl/crypto.h>

#include <cerrno>
#include <cstdio>

#include "common/base/safe_text.h"

namespace softmax::client {

std::string Visible(std::string_view text) { return SafeText(text, TextFor::kPeople, std::string_view::npos); }

void Say(std::string_view message) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, SafeError(message).c_str());
}

void KeepOpenSsl() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

}  // namespace softmax::client
