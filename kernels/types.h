#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/operations.h"

namespace softmax::kernels {

// Values equal the wire's (proto/softmax/v1/softmax.proto).
enum class DataType : std::uint8_t { kFloat32 = 1, kFloat16 = 2, kBFloat16 = 3, kFloat64 = 4 };

constexpr std::size_t SizeOf(DataType type) {
  return type == DataType::kFloat64 ? 8 : type == DataType::kFloat32 ? 4 : 2;
}

// Softmax along the middle dimension of one dense block [outer, cols, inner]: row r = o * inner + i is the `cols`
// elements at (o * cols + c) * inner + i. With inner == 1 rows are contiguous (the last axis of a tensor).
//
// Semantics, for x = scale * input (computed in fp32 for 16- and 32-bit inputs, in fp64 for fp64):
//   rounding   one rounding to the output type at the end
//   edge rows  some -inf: exactly 0 (softmax) or -inf (log-softmax) there; all -inf, any NaN, any +inf: all NaN
//   lengths    elements at or beyond lengths[r] are never read into the result and come out as exactly 0 (softmax) or
//              -inf (log-softmax), whatever the part before them is; only length 0 makes the whole row NaN, the tail
//              included
//   bits       a row's result depends on its own elements, length, cols, types, operation and scale only: not on its
//              address, its neighbours, their number, `inner`, or the grid
//
// `output` may be `input` exactly when both types have one size and the strides are equal; any other overlap is wrong.
// Pointers need the alignment of their element type only.
struct Segment {
  const void* input = nullptr;
  void* output = nullptr;
  const std::uint32_t* lengths = nullptr;  // nullptr, or one per row, each <= cols
  std::int64_t outer = 0;
  std::int64_t cols = 0;
  std::int64_t inner = 1;
  std::int64_t input_stride = 0;   // elements from one outer block to the next; cols * inner when dense
  std::int64_t output_stride = 0;  // the same for the output
  double scale = 1.0;              // finite and > 0
  Operation operation = Operation::kSoftmax;
};

// The largest SummarySegment::top_k.
constexpr std::int32_t kMaxTopK = 1024;

// What is wanted of each row instead of its results. Every array has its rows one after the other, row r = o * inner +
// i, and is nullptr where it is not wanted. "Value" means the result that the softmax of the same rows would store,
// with the same bits, in the output type. Numbers are of the type computed in: float, or double for fp64 inputs.
//   top_values, top_indices  the top_k largest inputs' values, largest first, equal inputs by the smallest index. If
//                            fewer lie before the row's length, the rest are masked (0 or -inf), with index -1
//   values_at                the values at `indices`, `at` of them a row; masked at -1. Indices are below cols
//   log_sum_exp, maximum     log(sum(exp(x))), x = scale * input, and the largest x. All -inf or no elements: -inf. Any
//                            NaN: NaN. Otherwise any +inf: +inf
//   entropy                  -sum(p log p) in nats
// A row that comes out all NaN has NaN values, indices of -1 and an entropy of NaN; values_at are masked at -1 there
// too and, unless its length is 0, beyond the length.
struct SummarySegment {
  Segment rows;  // output and output_stride are not looked at
  std::int32_t top_k = 0;
  std::int64_t at = 0;
  const std::int32_t* indices = nullptr;
  void* top_values = nullptr;
  std::int32_t* top_indices = nullptr;
  void* values_at = nullptr;
  void* log_sum_exp = nullptr;
  void* maximum = nullptr;
  void* entropy = nullptr;
};

// Bytes to be brought together from wherever they are; of no alignment.
struct GatherPiece {
  const void* source = nullptr;
  std::uint64_t offset = 0;  // in the destination
  std::uint64_t bytes = 0;
};

}  // namespace softmax::kernels
