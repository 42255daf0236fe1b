#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace softmax::server {

// A validated request's geometry: the tensor seen as [outer, cols, inner] around its axis, and what to compute. All
// products below fit in 63 bits; the decoder checked that before it made one.
struct TensorSpec {
  kernels::DataType input_type = kernels::DataType::kFloat32;
  kernels::DataType output_type = kernels::DataType::kFloat32;
  kernels::Operation operation = kernels::Operation::kSoftmax;
  double scale = 1.0;
  std::int64_t outer = 0;
  std::int64_t cols = 0;
  std::int64_t inner = 1;
  bool has_lengths = false;

  std::int64_t rows() const { return outer * inner; }
  std::uint64_t elements() const { return static_cast<std::uint64_t>(outer * cols * inner); }
  std::uint64_t input_bytes() const { return elements() * kernels::SizeOf(input_type); }
  std::uint64_t output_bytes() const { return elements() * kernels::SizeOf(output_type); }
  std::uint64_t lengths_bytes() const { return has_lengths ? static_cast<std::uint64_t>(rows()) * 4 : 0; }
};

}  // namespace softmax::server
