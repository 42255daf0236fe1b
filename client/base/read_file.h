#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>

namespace softmax::client {

// How messages call a file that the user named; "-" is standard input.
std::string NameOfInput(const std::string& path);

// The bytes of a file, of a pipe (waited for until its writer closes it), or of standard input for "-".
// INVALID_ARGUMENT for all else: what is not there or may not be read, a folder, a device, more than `most_bytes`. The
// message begins with the name.
absl::StatusOr<std::string> ReadFile(const std::string& path, std::size_t most_bytes);

}  // namespace softmax::client
