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

// Judges segment.output against the reference on segment.input (which must still hold the input: for an in-place run,
// pass a copy). Bounds, r the exact value, d = |x - max| * scale:
//   softmax fp32      |y - r| <= (6 + 1.5 d) ulp(r) + 1.2e-38 for every element, and the row sums to 1 within 1e-6
//   log-softmax fp32  |y - r| <= 2 ulp(max(d, ln N, 1))
//   fp64              the same with its own ulp and smallest normal (sum within 1e-14 * max(1, log2 N))
//   fp16, bf16        the correctly rounded value, or its neighbour where r lies within the fp32 bound of a tie
//   NaN, infinities, masked rows, zeros beyond lengths: exact, as kernels/types.h says
Judgement Judge(DataType input_type, DataType output_type, const Segment& segment);

// The same of a summary's arrays, with the same bounds for its values. Indices have to be exact. Further bounds, N the
// row's elements:
//   maximum       exactly the largest input times scale, rounded; 1 ulp for fp64
//   log_sum_exp   8 ulp(max(|maximum|, |log_sum_exp|, 1)), of the type that the numbers have
//   entropy       64 ulp(max(1, ln N)), the same
// summary.rows.output is not looked at.
Judgement JudgeSummary(DataType input_type, DataType output_type, const SummarySegment& summary);

// One element of a tensor as a double, and a double as an element (rounded to nearest even).
double LoadElement(DataType type, const void* data, std::int64_t index);
void StoreElement(DataType type, void* data, std::int64_t index, double value);

}  // namespace softmax::kernels
