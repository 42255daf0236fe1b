#pragma once

#include <absl/status/status.h>

#include <string>

#include "server/config/config.h"

namespace softmax::server {

// Whether a path or address is given: "none" stands for none.
inline bool IsSet(const std::string& value) { return value != "none"; }

// Refuses keys and tokens that do not go together, that others could read, or that would travel in the clear:
// INVALID_ARGUMENT that names the flags and their values. Looks at the files' permissions, not into them. Expects
// addresses that CheckConfig has found to be well-formed.
absl::Status CheckSecurity(const Config& config);

// The permissions of --unix-socket-mode; INVALID_ARGUMENT when they are none.
absl::Status ParseSocketMode(const std::string& text, unsigned* mode);

}  // namespace softmax::server
