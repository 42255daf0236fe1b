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

// Reads a file (see ReadFile), or standard input for "-". INVALID_ARGUMENT for what cannot be read or is no such array,
// archives and compressed files by name. The message begins with the file's name.
absl::StatusOr<LoadedArray> LoadArray(const std::string& path, Format format);

// How an answer goes to that file ("-": standard output): as its name ends (.npy, .csv, .txt), otherwise as the input
// came. Looks before the answer is asked for: INVALID_ARGUMENT when the file could not be written (see CheckWritable),
// when its name promises what is not written (.npz, .gz), and for binary data to a terminal.
absl::StatusOr<Format> PlanOutput(const std::string& path, Format input);

// Writes to a file, or to standard output for "-"; see WriteFile.
absl::Status SaveArray(const std::string& path, Format format, const Array& array);

}  // namespace softmax::client
