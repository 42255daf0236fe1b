#pragma once

#include <string>

#include "kernels/types.h"

// The yardstick: softmax in higher precision (double; long double for fp64 inputs), and the error bounds that every
// answer of this project has to meet. Slow and simple on purpose. Used by the tests and by the load generator.
namespace softmax::kernels {

struct Judgement {
  bool ok = true;
  std::string message;  // the first element that failed: row, column, got, expected, bound
  double worst = 0;     // largest error seen as a fraction of its bound, finite elements only
  std::int64_t failures = 0;
};

// kPromised holds for every row that a client may send, also for one that was made so that all roundings of its sum go
// one way. Rows that nobody made stay within kUsual, by which the tests of the kernels go: a kernel that has grown less
// accurate is seen there first.
enum class Bounds { kPromised, kUsual };

// Judges segment.output against the reference on segment.input (which must still hold the input: for an in-place run,
// pass a copy). Bounds, r the exact value, d = |x - max| * scale, D the mean of d over the row, weighted by r (at most
// ln N, and small where one element has nearly all); the figures of kUsual in brackets:
//   softmax fp32      |y - r| <= (16 [6] + 1.5 (d + D)) ulp(r) + 1.2e-38 for every element; rows sum to 1 within 1e-6
//   log-softmax fp32  |y - r| <= 4 [2] ulp(max(d, ln N, 1))
//   fp64              the same with its own ulp and smallest normal (sum within 1e-14 * max(1, log2 N))
//   fp16, bf16        the correctly rounded value, or its neighbour where r lies within the fp32 bound of a tie
//   NaN, infinities, masked rows, zeros beyond lengths: exact, as kernels/types.h says
Judgement Judge(DataType input_type, DataType output_type, const Segment& segment, Bounds bounds = Bounds::kPromised);

// The same of a summary's arrays, with the same bounds for its values. Indices have to be exact. Further bounds, N the
// row's elements:
//   maximum       exactly the largest input times scale, rounded; 1 ulp for fp64
//   log_sum_exp   8 ulp(max(|maximum|, |log_sum_exp|, 1)), of the type that the numbers have
//   entropy       64 ulp(max(1, ln N)), the same
// summary.rows.output is not looked at.
Judgement JudgeSummary(DataType input_type, DataType output_type, const SummarySegment& summary,
                       Bounds bounds = Bounds::kPromised);

// One element of a tensor as a double, and a double as an element (rounded to nearest even).
double LoadElement(DataType type, const void* data, std::int64_t index);
void StoreElement(DataType type, void* data, std::int64_t index, double value);

}  // namespace softmax::kernels
