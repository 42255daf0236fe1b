#include "client/cli/array.h"

#include <utility>

#include "kernels/reference.h"

namespace softmax::client {
namespace {

kernels::DataType KernelType(DataType type) { return static_cast<kernels::DataType>(type); }

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

Array FromValues(std::span<const double> values, std::vector<std::int64_t> shape, DataType dtype) {
  Array result{dtype, std::move(shape), {}};
  result.data.resize(values.size() * SizeOf(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    kernels::StoreElement(KernelType(dtype), result.data.data(), static_cast<std::int64_t>(i), values[i]);
  }
  return result;
}

}  // namespace softmax::client
