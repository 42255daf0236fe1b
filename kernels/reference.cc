#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/operations.h"

namespace softmax::kernels {
namespace {

// Binary formats narrower than a double, as their significand and exponent ranges.
struct Format {
  int fraction_bits;
  int min_exponent;  // of the smallest normal number
  int max_exponent;
};

constexpr Format kHalf{10, -14, 15};
constexpr Format kBFloat{7, -126, 127};
constexpr Format kSingle{23, -126, 127};
constexpr Format kDouble{52, -1022, 1023};

double DecodeSixteen(Format format, std::uint16_t bits) {
  const int exponent_field = (bits & 0x7fff) >> format.fraction_bits;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  double magnitude;
  if (exponent_field == format.max_exponent * 2 + 1) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    const int significand = exponent_field == 0 ? fraction : fraction + (1 << format.fraction_bits);
    const int exponent = std::max(exponent_field, 1) - 1 + format.min_exponent;
    magnitude = std::ldexp(significand, exponent - format.fraction_bits);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t EncodeSixteen(Format format, double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int infinity = (format.max_exponent * 2 + 1) << format.fraction_bits;
  const double magnitude = std::fabs(value);
  int bits = 0;
  if (std::isnan(value)) {
    bits = infinity | (1 << (format.fraction_bits - 1));
  } else if (magnitude >= std::ldexp(1.0, format.max_exponent + 1)) {
    bits = infinity;
  } else if (magnitude > 0) {
    const int exponent = std::max(std::ilogb(magnitude), format.min_exponent);
    // Dividing by a power of two is exact here, so this is the only rounding. A significand that
    // rounds up to the next power of two carries into the exponent field, and from the largest
    // finite number into infinity, as it must.
    const auto significand = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
    bits = ((exponent - format.min_exponent) << format.fraction_bits) + significand;
  }
  return static_cast<std::uint16_t>(sign | bits);
}

template <typename T>
T LoadAs(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void StoreAs(void* data, std::int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * sizeof(T), &value, sizeof(T));
}

double RoundTo(DataType type, double value) {
  alignas(double) unsigned char element[sizeof(double)];
  StoreElement(type, element, 0, value);
  return LoadElement(type, element, 0);
}

const char* NameOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "fp32";
    case DataType::kFloat16:
      return "fp16";
    case DataType::kBFloat16:
      return "bf16";
    case DataType::kFloat64:
      return "fp64";
  }
  return "unknown type";
}

// Neumaier's sum: its error does not grow with the number of terms.
template <typename Real>
class CompensatedSum {
 public:
  void Add(Real value) {
    const Real next = sum_ + value;
    correction_ += std::fabs(sum_) >= std::fabs(value) ? (sum_ - next) + value : (value - next) + sum_;
    sum_ = next;
  }
  Real Total() const { return sum_ + correction_; }

 private:
  Real sum_ = 0;
  Real correction_ = 0;
};

// Judges rows one after the other. Real is the type that the expected values are computed in.
template <typename Real>
class RowJudge {
 public:
  RowJudge(DataType input_type, DataType output_type, const Segment& segment, Bounds bounds)
      : input_type_(input_type),
        output_type_(output_type),
        segment_(segment),
        bounds_(bounds),
        is_log_(TraitsOf(segment.operation).is_log),
        // The coarser of the type computed in and the type of the answer sets the bound.
        bound_format_(input_type == DataType::kFloat64 && output_type == DataType::kFloat64 ? kDouble : kSingle) {}

  void JudgeRow(std::int64_t row) {
    row_ = row;
    const std::int64_t outer = row / segment_.inner;
    const std::int64_t inner = row % segment_.inner;
    input_start_ = outer * segment_.input_stride + inner;
    output_start_ = outer * segment_.output_stride + inner;
    valid_ = segment_.lengths == nullptr ? segment_.cols : segment_.lengths[row];
    if (valid_ == 0) {
      for (std::int64_t c = 0; c < segment_.cols; ++c) {
        ExpectNan(c);
      }
      return;
    }
    LoadRow();
    if (has_nan_ || std::isinf(max_)) {
      for (std::int64_t c = 0; c < valid_; ++c) {
        ExpectNan(c);
      }
    } else {
      JudgeFiniteRow();
    }
    for (std::int64_t c = valid_; c < segment_.cols; ++c) {
      ExpectExactly(c, Masked());
    }
  }

  void JudgeSummaryRow(std::int64_t row, const SummarySegment& summary) {
    row_ = row;
    input_start_ = row / segment_.inner * segment_.input_stride + row % segment_.inner;
    valid_ = segment_.lengths == nullptr ? segment_.cols : segment_.lengths[row];
    LoadRow();
    const bool is_nan = has_nan_ || std::isinf(max_);
    std::vector<std::int32_t> order;
    if (!is_nan && summary.top_values != nullptr) order = LargestOf(distance_, summary.top_k);
    sum_ = mean_distance_ = std::numeric_limits<Real>::quiet_NaN();
    if (!is_nan) MeasureRow();
    const Real log_sum = std::log(sum_);
    const Real entropy = log_sum + mean_distance_;
    for (std::int32_t i = 0; summary.top_values != nullptr && i < summary.top_k; ++i) {
      const std::int64_t place = row * summary.top_k + i;
      const std::int32_t index = static_cast<std::size_t>(i) < order.size() ? order[static_cast<std::size_t>(i)] : -1;
      if (summary.top_indices[place] != index) Fail(index, summary.top_indices[place], index, 0);
      JudgeValue(index, summary.top_values, place, log_sum, is_nan && index < 0);
    }
    for (std::int64_t place = row * summary.at; place < (row + 1) * summary.at; ++place) {
      JudgeValue(summary.indices[place], summary.values_at, place, log_sum, false);
    }
    if (summary.log_sum_exp != nullptr) JudgeNormalizers(summary, log_sum, is_nan);
    const Real size = std::max<Real>(1, std::log(static_cast<Real>(std::max<std::int64_t>(1, valid_))));
    if (summary.entropy != nullptr) JudgeNumber("the entropy", summary.entropy, entropy, 64 * NumberUlp(size));
  }

  Judgement Take() { return std::move(judgement_); }

 private:
  // The places of the k largest, equal ones in their order.
  static std::vector<std::int32_t> LargestOf(const std::vector<Real>& x, std::int32_t k) {
    std::vector<std::int32_t> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    const auto is_before = [&x](std::int32_t a, std::int32_t b) {
      const Real left = x[static_cast<std::size_t>(a)];
      const Real right = x[static_cast<std::size_t>(b)];
      return left > right || (left == right && a < b);
    };
    const auto found = std::min(order.size(), static_cast<std::size_t>(k));
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(found), order.end(), is_before);
    order.resize(found);
    return order;
  }

  // Turns the row's elements into distances, and leaves its sum and mean distance.
  void MeasureRow() {
    CompensatedSum<Real> sum;
    CompensatedSum<Real> products;
    for (Real& x : distance_) {
      x = (max_ - x) * static_cast<Real>(segment_.scale);
      const Real e = std::exp(-x);
      sum.Add(e);
      if (e != 0) products.Add(e * x);
    }
    sum_ = sum.Total();
    mean_distance_ = products.Total() / sum_;
  }

  // The value of column c at `place` of an array.
  void JudgeValue(std::int64_t c, const void* values, std::int64_t place, Real log_sum, bool is_nan) {
    summary_values_ = values;
    summary_place_ = place;
    if (is_nan || (c >= 0 && std::isnan(sum_) && (c < valid_ || valid_ == 0))) {
      ExpectNan(c);
    } else if (c < 0 || c >= valid_ || std::isinf(distance_[static_cast<std::size_t>(c)])) {
      ExpectExactly(c, Masked());
    } else {
      const Real d = distance_[static_cast<std::size_t>(c)];
      const Real expected = is_log_ ? -d - log_sum : std::exp(-d) / sum_;
      JudgeElement(c, expected, Bound(expected, d));
    }
    summary_values_ = nullptr;
  }

  void JudgeNormalizers(const SummarySegment& summary, Real log_sum, bool is_nan) {
    const Real max = has_nan_ ? std::numeric_limits<Real>::quiet_NaN() : max_ * static_cast<Real>(segment_.scale);
    const Real expected = is_nan ? max : max + log_sum;
    const bool is_double = NumberType() == DataType::kFloat64 && std::isfinite(max) && max != 0;
    JudgeNumber("the maximum", summary.maximum, max, is_double ? NumberUlp(max) : 0);
    const Real size = std::max({std::fabs(max), std::fabs(expected), Real{1}});
    JudgeNumber("log(sum(exp))", summary.log_sum_exp, expected, std::isfinite(size) ? 8 * NumberUlp(size) : 0);
  }

  DataType NumberType() const { return input_type_ == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32; }
  Real NumberUlp(Real size) const {
    return std::ldexp(static_cast<Real>(1), std::ilogb(size) - (SizeOf(NumberType()) == 8 ? 52 : 23));
  }
  void JudgeNumber(const char* name, const void* numbers, Real expected, Real bound) {
    const double got = LoadElement(NumberType(), numbers, row_);
    const double rounded = RoundTo(NumberType(), static_cast<double>(expected));
    const bool is_same = got == rounded || (std::isnan(got) && std::isnan(rounded));
    if (is_same || std::fabs(static_cast<Real>(got) - expected) <= bound) return;
    const bool is_first = judgement_.failures == 0;
    Fail(-1, got, static_cast<double>(expected), static_cast<double>(bound));
    if (is_first) judgement_.message += std::string(", of ") + name;
  }

  void LoadRow() {
    distance_.resize(static_cast<std::size_t>(valid_));
    has_nan_ = false;
    max_ = -std::numeric_limits<Real>::infinity();
    for (std::int64_t c = 0; c < valid_; ++c) {
      const Real x = LoadElement(input_type_, segment_.input, input_start_ + c * segment_.inner);
      has_nan_ = has_nan_ || std::isnan(x);
      max_ = std::max(max_, x);
      distance_[static_cast<std::size_t>(c)] = x;
    }
  }

  void JudgeFiniteRow() {
    MeasureRow();
    const Real log_sum = std::log(sum_);
    CompensatedSum<Real> total;
    for (std::int64_t c = 0; c < valid_; ++c) {
      const Real d = distance_[static_cast<std::size_t>(c)];
      if (std::isinf(d)) {
        ExpectExactly(c, Masked());
        continue;
      }
      const Real expected = is_log_ ? -d - log_sum : std::exp(-d) / sum_;
      total.Add(JudgeElement(c, expected, Bound(expected, d)));
    }
    if (!is_log_) {
      JudgeSum(total.Total());
    }
  }

  // The distance from the number at `value` to the next one in the format that sets the bound.
  Real Ulp(Real value) const {
    const int exponent =
        value == 0 ? bound_format_.min_exponent : std::max(std::ilogb(value), bound_format_.min_exponent);
    return std::ldexp(static_cast<Real>(1), exponent - bound_format_.fraction_bits);
  }

  Real Bound(Real expected, Real d) const {
    if (is_log_) {
      const Real size = std::max({d, std::log(static_cast<Real>(valid_)), static_cast<Real>(1)});
      return std::isinf(size) ? size : (bounds_ == Bounds::kPromised ? 4 : 2) * Ulp(size);
    }
    // Where `expected` has underflowed to zero, d may be infinite or large enough to lift the
    // relative part above what it stands for.
    const Real roundings = bounds_ == Bounds::kPromised ? 16 : 6;
    const Real relative =
        expected == 0 ? 0 : (roundings + static_cast<Real>(1.5) * (d + mean_distance_)) * Ulp(expected);
    const bool is_single = bound_format_.fraction_bits == kSingle.fraction_bits;
    return relative + static_cast<Real>(is_single ? 1.2e-38 : 2.3e-308);
  }

  // Returns what it got.
  Real JudgeElement(std::int64_t c, Real expected, Real bound) {
    const double got = Got(c);
    const bool is_sixteen = SizeOf(output_type_) == 2;
    bool ok;
    if (std::isnan(got) || (!is_log_ && std::signbit(got))) {
      ok = false;
    } else if (is_sixteen || std::isinf(got)) {
      const Real low = is_log_ ? expected - bound : std::max<Real>(expected - bound, 0);
      ok = got >= RoundTo(output_type_, static_cast<double>(low)) &&
           got <= RoundTo(output_type_, static_cast<double>(expected + bound));
    } else {
      const Real error = std::fabs(static_cast<Real>(got) - expected);
      ok = error <= bound;
      NoteWorst(error, bound);
    }
    if (is_sixteen && ok && std::isfinite(got)) {
      NoteWorst(DistanceToCell(got, expected), bound);
    }
    if (!ok) {
      Fail(c, got, static_cast<double>(expected), static_cast<double>(bound));
    }
    return got;
  }

  // How far the exact value lies outside the numbers that round to `got`, a finite 16-bit number.
  Real DistanceToCell(double got, Real expected) const {
    const double nearest = RoundTo(output_type_, static_cast<double>(expected));
    if (nearest == got || std::isinf(nearest)) {
      return 0;
    }
    return std::fabs(expected - (static_cast<Real>(got) + static_cast<Real>(nearest)) / 2);
  }

  void NoteWorst(Real error, Real bound) {
    if (std::isfinite(error) && std::isfinite(bound)) {
      judgement_.worst = std::max(judgement_.worst, static_cast<double>(error / bound));
    }
  }

  void JudgeSum(Real total) {
    if (SizeOf(output_type_) == 2) {
      return;  // rounding every element moves the sum by far more than the kernel does
    }
    const bool is_single = bound_format_.fraction_bits == kSingle.fraction_bits;
    const double bound = is_single ? 1e-6 : 1e-14 * std::max(1.0, std::log2(static_cast<double>(valid_)));
    if (!(std::fabs(total - 1) <= bound)) {
      Fail(-1, static_cast<double>(total), 1.0, bound);
    }
  }

  double Masked() const { return is_log_ ? -std::numeric_limits<double>::infinity() : 0.0; }

  double Got(std::int64_t c) const {
    if (summary_values_ != nullptr) return LoadElement(output_type_, summary_values_, summary_place_);
    return LoadElement(output_type_, segment_.output, output_start_ + c * segment_.inner);
  }

  void ExpectNan(std::int64_t c) {
    const double got = Got(c);
    if (!std::isnan(got)) {
      Fail(c, got, std::numeric_limits<double>::quiet_NaN(), 0);
    }
  }

  void ExpectExactly(std::int64_t c, double expected) {
    const double got = Got(c);
    if (!(got == expected) || std::signbit(got) != std::signbit(expected)) {
      Fail(c, got, expected, 0);
    }
  }

  // Column -1 stands for the sum of the row.
  void Fail(std::int64_t c, double got, double expected, double bound) {
    judgement_.ok = false;
    if (judgement_.failures++ > 0) {
      return;
    }
    std::ostringstream text;
    text.precision(17);
    text << TraitsOf(segment_.operation).name << " " << NameOf(input_type_) << " to " << NameOf(output_type_)
         << ", row " << row_ << " of " << segment_.outer * segment_.inner << ", ";
    if (c < 0) {
      text << "the sum of the row";
    } else {
      text << "column " << c << " of " << segment_.cols;
    }
    text << ": got " << got << ", expected " << expected << " within " << bound << " (valid length " << valid_
         << ", scale " << segment_.scale << ", inner " << segment_.inner << ")";
    judgement_.message = text.str();
  }

  const DataType input_type_;
  const DataType output_type_;
  const Segment& segment_;
  const Bounds bounds_;
  const bool is_log_;
  const Format bound_format_;

  std::int64_t row_ = 0;
  std::int64_t input_start_ = 0;
  std::int64_t output_start_ = 0;
  std::int64_t valid_ = 0;
  bool has_nan_ = false;
  Real max_ = 0;
  std::vector<Real> distance_;  // the row's elements, then (max - x) * scale
  Real mean_distance_ = 0;      // weighted by the results
  Judgement judgement_;

  // Of a summary.
  Real sum_ = 0;                          // of the exponentials; NaN where there is none
  const void* summary_values_ = nullptr;  // what Got() looks at instead of the output
  std::int64_t summary_place_ = 0;
};

template <typename Real>
Judgement JudgeRows(DataType input_type, DataType output_type, const Segment& segment, Bounds bounds) {
  RowJudge<Real> judge(input_type, output_type, segment, bounds);
  if (segment.cols > 0) {
    for (std::int64_t row = 0; row < segment.outer * segment.inner; ++row) {
      judge.JudgeRow(row);
    }
  }
  return judge.Take();
}

template <typename Real>
Judgement JudgeSummaryRows(DataType input_type, DataType output_type, const SummarySegment& summary, Bounds bounds) {
  RowJudge<Real> judge(input_type, output_type, summary.rows, bounds);
  if (summary.rows.cols > 0) {
    for (std::int64_t row = 0; row < summary.rows.outer * summary.rows.inner; ++row) {
      judge.JudgeSummaryRow(row, summary);
    }
  }
  return judge.Take();
}

}  // namespace

Judgement JudgeSummary(DataType input_type, DataType output_type, const SummarySegment& summary, Bounds bounds) {
  return input_type == DataType::kFloat64 ? JudgeSummaryRows<long double>(input_type, output_type, summary, bounds)
                                          : JudgeSummaryRows<double>(input_type, output_type, summary, bounds);
}

Judgement Judge(DataType input_type, DataType output_type, const Segment& segment, Bounds bounds) {
  return input_type == DataType::kFloat64 ? JudgeRows<long double>(input_type, output_type, segment, bounds)
                                          : JudgeRows<double>(input_type, output_type, segment, bounds);
}

double LoadElement(DataType type, const void* data, std::int64_t index) {
  switch (type) {
    case DataType::kFloat32:
      return LoadAs<float>(data, index);
    case DataType::kFloat64:
      return LoadAs<double>(data, index);
    case DataType::kFloat16:
      return DecodeSixteen(kHalf, LoadAs<std::uint16_t>(data, index));
    case DataType::kBFloat16:
      return DecodeSixteen(kBFloat, LoadAs<std::uint16_t>(data, index));
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void StoreElement(DataType type, void* data, std::int64_t index, double value) {
  switch (type) {
    case DataType::kFloat32:
      return StoreAs(data, index, static_cast<float>(value));
    case DataType::kFloat64:
      return StoreAs(data, index, value);
    case DataType::kFloat16:
      return StoreAs(data, index, EncodeSixteen(kHalf, value));
    case DataType::kBFloat16:
      return StoreAs(data, index, EncodeSixteen(kBFloat, value));
  }
}

}  // namespace softmax::kernels
