#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "client/cli/array.h"

namespace softmax::client {

// Whether the bytes begin as NumPy's .npy format does.
bool LooksLikeNpy(std::string_view bytes);

// Reads format versions 1 and 2 with elements <f2, <f4 or <f8, in C or Fortran order; the array is in C order. Anything
// else is INVALID_ARGUMENT, and the message says what was found.
absl::StatusOr<Array> ReadNpy(std::string_view bytes);

// Writes version 1 (a header of at most 8 dimensions always fits). The format has no bfloat16: such
// an array is written as float32, which holds every one of its values.
std::string WriteNpy(const Array& array);

}  // namespace softmax::client
