#include "client/base/say.h"

#include <cerrno>
#include <cstdio>

#include "common/base/safe_text.h"

namespace softmax::client {

std::string Visible(std::string_view text) { return SafeText(text, TextFor::kPeople, std::string_view::npos); }

void Say(std::string_view message) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, SafeError(message).c_str());
}

}  // namespace softmax::client
