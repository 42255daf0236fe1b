#pragma once

#include <absl/status/status.h>

#include <string>

// The files of the security flags, by one rule for both programs. An empty path is a flag that was not given: `*text`
// stays as it is. INVALID_ARGUMENT names flag, file and what is wrong, never what is in it.
namespace softmax::client {

// `kind` stands in the PEM's first line: CERTIFICATE, or PRIVATE KEY with or without the key's kind before it.
absl::Status ReadPem(const char* flag, const std::string& path, const char* kind, std::string* text);

// One token of visible ASCII, and line feeds behind it.
absl::Status ReadToken(const char* flag, const std::string& path, std::string* token);

}  // namespace softmax::client
