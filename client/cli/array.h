#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/softmax_client/types.h"

namespace softmax::client {

// A tensor on its way from a file to the server, or back.
struct Array {
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

std::int64_t CountOf(const Array& array);
double ElementAt(const Array& array, std::int64_t index);

// The same values in another type, each rounded once to nearest even.
Array Converted(const Array& array, DataType dtype);

// INVALID_ARGUMENT names the first finite value that became infinite when `from` was converted to `to`: in a softmax
// one such makes a whole row NaN.
absl::Status CheckNoneOverflowed(const Array& from, const Array& to);

// An array of that type and shape from values, which must be as many as the shape says.
Array FromValues(std::span<const double> values, std::vector<std::int64_t> shape, DataType dtype);

}  // namespace softmax::client
