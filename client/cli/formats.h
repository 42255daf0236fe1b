#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "client/cli/array.h"

// Arrays as .npy files and as text.
namespace softmax::client {

// Whether the bytes begin as NumPy's .npy format does.
bool LooksLikeNpy(std::string_view bytes);

// Reads format versions 1 and 2 with elements <f2, <f4 or <f8, in C or Fortran order; the array is in C order. Anything
// else is INVALID_ARGUMENT, and the message says what was found.
absl::StatusOr<Array> ReadNpy(std::string_view bytes);

// Writes version 1 (a header of at most 8 dimensions always fits). The format has no bfloat16: such
// an array is written as float32, which holds every one of its values.
std::string WriteNpy(const Array& array);

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
