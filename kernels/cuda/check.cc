#include "kernels/cuda/check.h"

#include <cmath>
#include <cstdint>

namespace softmax::kernels::cuda {
namespace {

// Far beyond any memory; keeps every count derived from the columns within 32 bits.
constexpr std::int64_t kMaxCols = std::int64_t{1} << 40;

// Elements from the first to one past the last, or -1 where that overflows a byte count in int64.
std::int64_t Extent(const Segment& s, std::int64_t stride) {
  std::int64_t block = 0;
  std::int64_t offset = 0;
  std::int64_t extent = 0;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(s.cols, s.inner, &block) || __builtin_mul_overflow(s.outer - 1, stride, &offset) ||
      __builtin_add_overflow(block, offset, &extent) || __builtin_mul_overflow(extent, std::int64_t{8}, &bytes)) {
    return -1;
  }
  return extent;
}

bool IsAligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

bool Overlap(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes) {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b);
  return a_begin < b_begin + static_cast<std::uintptr_t>(b_bytes) &&
         b_begin < a_begin + static_cast<std::uintptr_t>(a_bytes);
}

}  // namespace

bool IsSupported(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBFloat16 ||
         type == DataType::kFloat64;
}

cudaError_t CheckSegment(DataType input_type, DataType output_type, const Segment& s) {
  if (s.outer < 0 || s.cols < 0 || s.inner < 0 || s.input_stride < 0 || s.output_stride < 0) {
    return cudaErrorInvalidValue;
  }
  if (!std::isfinite(s.scale) || !(s.scale > 0)) return cudaErrorInvalidValue;
  if (s.operation != Operation::kSoftmax && s.operation != Operation::kLogSoftmax) {
    return cudaErrorInvalidValue;
  }
  if (IsEmpty(s)) return cudaSuccess;
  if (s.input == nullptr || s.output == nullptr || s.cols > kMaxCols) return cudaErrorInvalidValue;
  const std::int64_t input_extent = Extent(s, s.input_stride);
  const std::int64_t output_extent = Extent(s, s.output_stride);
  if (input_extent < 0 || output_extent < 0) return cudaErrorInvalidValue;
  const auto input_size = static_cast<std::int64_t>(SizeOf(input_type));
  const auto output_size = static_cast<std::int64_t>(SizeOf(output_type));
  if (!IsAligned(s.input, input_size) || !IsAligned(s.output, output_size) ||
      !IsAligned(s.lengths, sizeof(*s.lengths))) {
    return cudaErrorInvalidValue;
  }
  // Output blocks that overlap each other have no defined result.
  if (s.outer > 1 && s.output_stride < s.cols * s.inner) return cudaErrorInvalidValue;
  const bool same_place =
      s.input == s.output && input_size == output_size && (s.outer == 1 || s.input_stride == s.output_stride);
  if (!same_place && Overlap(s.input, input_extent * input_size, s.output, output_extent * output_size)) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace softmax::kernels::cuda
