#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace softmax::client {

// How messages call a file that the user named; "-" is standard input.
std::string NameOfInput(const std::string& path);

// The bytes of a file, of a pipe (waited for until its writer closes it), or of standard input for "-".
// INVALID_ARGUMENT for all else: what is not there or may not be read, a folder, a device, more than `most_bytes`. The
// message begins with the name.
absl::StatusOr<std::string> ReadFile(const std::string& path, std::size_t most_bytes);

// Looks before the work is done whose result a file is to hold ("-": standard output). INVALID_ARGUMENT names the file
// and why it could not be written: its folder is missing or closed, it is a folder, it is read-only.
absl::Status CheckWritable(const std::string& path);

// Puts the bytes there, whole or not at all: they are written beside the file, which is then renamed, so that an old
// file outlives a failure. Only what is no regular file (a pipe, /dev/null, standard output for "-") is written to
// directly. RESOURCE_EXHAUSTED, where there is no room, and UNKNOWN name the file and why it
// failed.
absl::Status WriteFile(const std::string& path, std::string_view bytes);

// Writes the bytes behind what the file has.
absl::Status AppendToFile(const std::string& path, std::string_view bytes);

}  // namespace softmax::client
