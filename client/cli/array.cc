#include "client/cli/array.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/reference.h"

namespace softmax::client {
namespace {

kernels::DataType KernelType(DataType type) { return static_cast<kernels::DataType>(type); }

std::string Shortest(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

// "[1, 0, 2]", as numpy counts: from 0.
std::string PlaceOf(std::int64_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) place[d] = element % shape[d];
  return absl::StrCat("[", absl::StrJoin(place, ", "), "]");
}

}  // namespace

std::int64_t CountOf(const Array& array) { return static_cast<std::int64_t>(array.data.size() / SizeOf(array.dtype)); }

double ElementAt(const Array& array, std::int64_t index) {
  return kernels::LoadElement(KernelType(array.dtype), array.data.data(), index);
}

Array Converted(const Array& array, DataType dtype) {
  if (dtype == array.dtype) return array;
  Array result{dtype, array.shape, {}};
  const std::int64_t count = CountOf(array);
  result.data.resize(static_cast<std::size_t>(count) * SizeOf(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    kernels::StoreElement(KernelType(dtype), result.data.data(), i, ElementAt(array, i));
  }
  return result;
}

absl::Status CheckNoneOverflowed(const Array& from, const Array& to) {
  if (from.dtype == to.dtype) return absl::OkStatus();
  const std::int64_t count = CountOf(from);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = ElementAt(from, i);
    if (!std::isfinite(value) || std::isfinite(ElementAt(to, i))) continue;
    return absl::InvalidArgumentError(absl::StrCat("element ", PlaceOf(i, from.shape),
                                                   ", counted from 0: ", Shortest(value), " is too large for ",
                                                   std::string(NameOf(to.dtype))));
  }
  return absl::OkStatus();
}

Array FromValues(std::span<const double> values, std::vector<std::int64_t> shape, DataType dtype) {
  Array result{dtype, std::move(shape), {}};
  result.data.resize(values.size() * SizeOf(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    kernels::StoreElement(KernelType(dtype), result.data.data(), static_cast<std::int64_t>(i), values[i]);
  }
  return result;
}

}  // namespace softmax::client
