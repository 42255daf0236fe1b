#include "kernels/cpu/run_any_scale.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/factor.h"
#include "kernels/cpu/top_k.h"
#include "kernels/operations.h"
#include "kernels/reference.h"

namespace softmax::kernels::cpu {
namespace {

using Real = long double;

constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();

// A row with its statistics.
struct RowOf {
  DataType input_type;
  DataType output_type;
  const Segment& segment;
  std::int64_t row;
  bool is_log;
  std::int64_t count;  // elements that matter
  Real max = -kInfinity;
  Real sum = 0;  // NaN where all results are
  Real log_sum = 0;

  RowOf(DataType input, DataType output, const Segment& rows, std::int64_t number)
      : input_type(input),
        output_type(output),
        segment(rows),
        row(number),
        is_log(TraitsOf(rows.operation).is_log),
        count(rows.lengths == nullptr ? rows.cols : rows.lengths[number]) {
    for (std::int64_t c = 0; c < count; ++c) max = std::fmax(max, Load(c));
    sum = std::isinf(max) ? kNan : 0;
    for (std::int64_t c = 0; c < count; ++c) sum += std::exp(Exponent(c));
    log_sum = std::log(sum);
  }
  std::int64_t InputAt(std::int64_t c) const {
    return row / segment.inner * segment.input_stride + c * segment.inner + row % segment.inner;
  }
  std::int64_t OutputAt(std::int64_t c) const {
    return row / segment.inner * segment.output_stride + c * segment.inner + row % segment.inner;
  }
  Real Load(std::int64_t c) const { return LoadElement(input_type, segment.input, InputAt(c)); }
  Real Exponent(std::int64_t c) const { return (Load(c) - max) * static_cast<Real>(segment.scale); }
  bool is_nan() const { return std::isnan(sum); }
  Real Masked() const { return is_log ? -kInfinity : Real{0}; }
  Real Result(std::int64_t c) const {
    if (is_nan() && (c < count || count == 0)) return kNan;
    if (c >= count) return Masked();
    return is_log ? Exponent(c) - log_sum : std::exp(Exponent(c)) / sum;
  }
};

void RunRow(const RowOf& row) {
  for (std::int64_t c = 0; c < row.segment.cols; ++c) {
    StoreElement(row.output_type, row.segment.output, row.OutputAt(c), static_cast<double>(row.Result(c)));
  }
}

void SummarizeTop(const SummarySegment& summary, const RowOf& row) {
  const std::int32_t k = summary.top_k;
  TopK<Real> top(k, -kInfinity);
  if (!row.is_nan()) {
    for (std::int64_t c = 0; c < row.count; ++c) top.Offer(row.Load(c), c);
  }
  const TopK<Real>::Element* const found = top.Sort();
  for (std::int32_t i = 0; i < k; ++i) {
    const bool is_found = i < top.Count();
    const Real value = is_found ? row.Result(found[i].index) : row.is_nan() ? kNan : row.Masked();
    summary.top_indices[row.row * k + i] = is_found ? static_cast<std::int32_t>(found[i].index) : -1;
    StoreElement(row.output_type, summary.top_values, row.row * k + i, static_cast<double>(value));
  }
}

void SummarizeRow(const SummarySegment& summary, const RowOf& row) {
  const DataType number_type = row.input_type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
  const auto store = [&](void* numbers, Real value) {
    if (numbers != nullptr) StoreElement(number_type, numbers, row.row, static_cast<double>(value));
  };
  if (summary.top_values != nullptr) SummarizeTop(summary, row);
  for (std::int64_t i = row.row * summary.at; i < (row.row + 1) * summary.at; ++i) {
    const std::int32_t index = summary.indices[i];
    const Real value = index < 0 ? row.Masked() : row.Result(index);
    StoreElement(row.output_type, summary.values_at, i, static_cast<double>(value));
  }
  bool has_nan = false;
  Real products = 0;
  for (std::int64_t c = 0; c < row.count; ++c) {
    has_nan = has_nan || std::isnan(row.Load(c));
    const Real exponent = row.Exponent(c);
    if (const Real e = std::exp(exponent); e != 0) products += e * exponent;
  }
  const Real max = row.max * static_cast<Real>(row.segment.scale);
  store(summary.log_sum_exp, has_nan ? kNan : row.is_nan() ? row.max : max + row.log_sum);
  store(summary.maximum, has_nan ? kNan : max);
  store(summary.entropy, row.log_sum - products / row.sum);
}

}  // namespace

bool NeedsAnyScale(DataType input_type, const Segment& segment) {
  return input_type == DataType::kFloat64 ? !IsOrdinaryScale<double>(segment.scale)
                                          : !IsOrdinaryScale<float>(segment.scale);
}

void RunAnyScale(DataType input_type, DataType output_type, const Segment& segment, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    RunRow(RowOf(input_type, output_type, segment, row));
  }
}

void SummarizeAnyScale(DataType input_type, DataType output_type, const SummarySegment& segment, std::int64_t begin,
                       std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    SummarizeRow(segment, RowOf(input_type, output_type, segment.rows, row));
  }
}

}  // namespace softmax::kernels::cpu
