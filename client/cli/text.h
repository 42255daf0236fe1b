#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "client/cli/array.h"

namespace softmax::client {

enum class Separator { kComma, kSpace };

// A comma if any line has one outside of comments.
Separator GuessSeparator(std::string_view text);

// Reads numbers, one row per line, all rows of one length: the array is [rows, columns] of float64. Lines end with LF,
// CRLF or CR; a UTF-8 byte-order mark, empty lines and what follows a '#' are skipped; "inf" and "nan" are numbers.
// What is too small for a double is 0, and what is too large below zero is -inf. INVALID_ARGUMENT: the message begins
// with the line's number, or says that it is no such text (UTF-16, binary).
absl::StatusOr<Array> ReadRows(std::string_view bytes, Separator separator);

// Writes rows along the last dimension, each value with the fewest digits that give it back.
std::string WriteRows(const Array& array, Separator separator);

}  // namespace softmax::client
