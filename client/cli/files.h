#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "client/cli/array.h"

namespace softmax::client {

enum class Format { kAuto, kNpy, kCsv, kText };

struct LoadedArray {
  Array array;
  Format format = Format::kText;  // what it was, never kAuto
};

// Reads a file, or standard input for "-". The message of an error begins with the file's name.
absl::StatusOr<LoadedArray> LoadArray(const std::string& path, Format format);

// Writes to a file, or to standard output for "-".
absl::Status SaveArray(const std::string& path, Format format, const Array& array);

}  // namespace softmax::client
