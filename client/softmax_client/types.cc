#include "client/softmax_client/types.h"

#include <limits>

#include "kernels/operations.h"

namespace softmax::client {

std::string_view NameOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBFloat16:
      return "bfloat16";
    case DataType::kFloat64:
      return "float64";
  }
  return "unknown";
}

std::optional<DataType> DataTypeFromName(std::string_view name) {
  if (name == "float32" || name == "f32" || name == "fp32") return DataType::kFloat32;
  if (name == "float16" || name == "f16" || name == "fp16") return DataType::kFloat16;
  if (name == "bfloat16" || name == "bf16") return DataType::kBFloat16;
  if (name == "float64" || name == "f64" || name == "fp64") return DataType::kFloat64;
  return std::nullopt;
}

std::string_view NameOf(Operation operation) {
  return kernels::TraitsOf(static_cast<kernels::Operation>(operation)).name;
}

std::optional<Operation> OperationFromName(std::string_view name) {
  const kernels::OperationTraits* const traits = kernels::FindOperation(name);
  if (traits == nullptr) return std::nullopt;
  return static_cast<Operation>(traits->operation);
}

Summary::Summary(DataType dtype, std::size_t number_size, const std::array<std::uint64_t, kParts>& sizes,
                 std::span<std::byte> memory)
    : dtype_(dtype), number_size_(number_size), begin_(memory.data()) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < kParts; ++i) {
    offset_[i] = end;
    size_[i] = sizes[i];
    end += (sizes[i] + 7) / 8 * 8;
  }
  if (!memory.empty()) return;
  own_.reset(new std::byte[end]);
  begin_ = own_.get();
}

std::optional<std::uint64_t> ElementsOf(std::span<const std::int64_t> shape) {
  constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 8;
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension == 0) empty = true;
  }
  if (empty) return 0;
  std::uint64_t elements = 1;
  for (const std::int64_t dimension : shape) {
    if (static_cast<std::uint64_t>(dimension) > kMaxElements / elements) return std::nullopt;
    elements *= static_cast<std::uint64_t>(dimension);
  }
  return elements;
}

std::uint64_t RowsOf(std::span<const std::int64_t> shape, std::int32_t axis) {
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int32_t>(shape.size()) : axis);
  std::uint64_t rows = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != at) rows *= static_cast<std::uint64_t>(shape[i]);
  }
  return rows;
}

}  // namespace softmax::client
