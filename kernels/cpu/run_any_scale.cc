#include <cmath>
#include <limits>

#include "kernels/cpu/run.h"
#include "kernels/reference.h"

namespace softmax::kernels::cpu {
namespace {

using Real = long double;

struct RowOf {
  DataType input_type;
  DataType output_type;
  const Segment& segment;
  std::int64_t row;

  std::int64_t InputAt(std::int64_t c) const {
    return row / segment.inner * segment.input_stride + c * segment.inner + row % segment.inner;
  }
  std::int64_t OutputAt(std::int64_t c) const {
    return row / segment.inner * segment.output_stride + c * segment.inner + row % segment.inner;
  }
  Real Load(std::int64_t c) const { return LoadElement(input_type, segment.input, InputAt(c)); }
  void Store(std::int64_t c, Real value) const {
    StoreElement(output_type, segment.output, OutputAt(c), static_cast<double>(value));
  }
};

void RunRow(const RowOf& row) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();
  const Segment& segment = row.segment;
  const Real scale = segment.scale;
  const bool is_log = segment.operation == Operation::kLogSoftmax;
  const std::int64_t count = segment.lengths == nullptr ? segment.cols : segment.lengths[row.row];
  Real max = -kInfinity;
  for (std::int64_t c = 0; c < count; ++c) {
    max = std::fmax(max, row.Load(c));
  }
  Real sum = std::isinf(max) ? kNan : 0;
  for (std::int64_t c = 0; c < count; ++c) {
    sum += std::exp((row.Load(c) - max) * scale);
  }
  const Real log_sum = std::log(sum);
  for (std::int64_t c = 0; c < count; ++c) {
    const Real exponent = (row.Load(c) - max) * scale;
    row.Store(c, std::isnan(sum) ? kNan : is_log ? exponent - log_sum : std::exp(exponent) / sum);
  }
  const Real masked = count == 0 ? kNan : is_log ? -kInfinity : Real{0};
  for (std::int64_t c = count; c < segment.cols; ++c) {
    row.Store(c, masked);
  }
}

}  // namespace

void RunAnyScale(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    RunRow(RowOf{input_type, output_type, segment, row});
  }
}

}  // namespace softmax::kernels::cpu
