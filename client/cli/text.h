#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "client/cli/array.h"

namespace softmax::client {

enum class Separator { kComma, kSpace };

// Reads numbers, one row per line, all rows of one length: the array is [rows, columns] of float64.
// Empty lines are skipped; "inf" and "nan" are numbers. INVALID_ARGUMENT: the message begins with
// the line's number.
absl::StatusOr<Array> ReadRows(std::string_view text, Separator separator);

// Writes rows along the last dimension, each value with the fewest digits that give it back.
std::string WriteRows(const Array& array, Separator separator);

}  // namespace softmax::client
