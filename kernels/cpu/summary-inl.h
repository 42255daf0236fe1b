// Summaries of rows: their largest elements, chosen ones and normalizers, once per Highway target. The values are those
// of the whole answer: the same maximum, the same sum and the same last step, on the elements that are asked for.
#if defined(SOFTMAX_KERNELS_CPU_SUMMARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_SUMMARY_INL_H_
#undef SOFTMAX_KERNELS_CPU_SUMMARY_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_SUMMARY_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/top_k.h"
#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// Offers all elements that may be among the largest.
template <typename T, typename In>
void OfferRow(const In* in, std::int64_t count, TopK<T>* top) {
  constexpr std::int64_t kL = kLanes<T>;
  constexpr std::int64_t kStride = 4 * kL;
  const Tag<T> d;
  HWY_ALIGN T lanes[kStride];
  std::int64_t i = 0;
  for (; i + kStride <= count; i += kStride) {
    VecOf<T> x[4];
    for (int u = 0; u < 4; ++u) x[u] = LoadVec<T>(in + i + u * kL);
    if (top->has_threshold()) {
      const auto largest = hn::Max(hn::Max(x[0], x[1]), hn::Max(x[2], x[3]));
      if (HWY_LIKELY(hn::AllFalse(d, hn::Gt(largest, hn::Set(d, top->threshold()))))) continue;
    }
    for (int u = 0; u < 4; ++u) hn::Store(x[u], d, lanes + u * kL);
    for (std::int64_t j = 0; j < kStride; ++j) top->Offer(lanes[j], i + j);
  }
  for (; i < count; i += kL) {
    const std::int64_t some = std::min(kL, count - i);
    hn::Store(LoadPartialVec<T>(in + i, some), d, lanes);
    for (std::int64_t j = 0; j < some; ++j) top->Offer(lanes[j], i + j);
  }
}

// The sum of exp(d) * d over the row, d = (x - max) * scale, biased as exp(d) is. Column c goes to partial sum
// c % kPartials, on every target.
template <typename T, typename In, Grade kGrade>
double SumOfProducts(const In* in, std::int64_t count, T max, double scale, const Factor<T, kGrade>& factor) {
  const Tag<T> d;
  constexpr std::int64_t kL = kLanes<T>;
  double sums[kPartials<T>] = {};
  HWY_ALIGN T products[kPartials<T>];
  for (std::int64_t i = 0; i < count; i += kPartials<T>) {
    for (int u = 0; u < kPartialVecs<T>; ++u) {
      const auto distance = hn::Sub(LoadSomeVec<T>(in + i + u * kL, count - i - u * kL), hn::Set(d, max));
      VecOf<T> e[] = {distance};
      BiasedExps<T>(e, factor);
      const auto product = hn::Mul(e[0], hn::Mul(distance, hn::Set(d, static_cast<T>(scale))));
      // Where nothing is left of the exponential, the distance may be infinite.
      hn::Store(hn::IfThenZeroElse(hn::Eq(e[0], hn::Zero(d)), product), d, products + u * kL);
    }
    for (int p = 0; p < kPartials<T>; ++p) sums[p] += static_cast<double>(products[p]);
  }
  for (int width = kPartials<T> / 2; width > 0; width /= 2) {
    for (int p = 0; p < width; ++p) sums[p] += sums[p + width];
  }
  return sums[0];
}

// The logarithm of the sum as the whole answer has it, which asks for short rows' logarithms in vectors.
template <typename T>
Sum LogOfRow(Sum total, std::int64_t cols) {
  if (cols > kShort<T>) return LogOfBiased<T>(total);
  HWY_ALIGN double high[kLanes<double>];
  HWY_ALIGN double low[kLanes<double>];
  std::fill(high, high + kLanes<double>, total.high);
  std::fill(low, low + kLanes<double>, total.low);
  TakeLogs<T>(1, high, low);
  return {high[0], low[0]};
}

template <typename T, typename In, typename Out, Grade kGrade>
class Summarizer {
 public:
  Summarizer(const SummarySegment& segment, const Factor<T, kGrade>& factor)
      : segment_(segment),
        factor_(factor),
        is_log_(segment.rows.operation == Operation::kLogSoftmax),
        masked_(is_log_ ? Constants<Out>::kNegativeInfinity : Constants<Out>::kZero) {}

  void Run(std::int64_t row) {
    row_ = row;
    in_ = InputRowOf(row);
    max_ = MaxOfRow<T>(in_, count_);
    if (!std::isfinite(max_)) return WriteWithoutValues();
    total_ = SumOfRow<false, T, In>(in_, count_, max_, factor_, nullptr);
    if (std::isnan(total_.high)) return WriteWithoutValues();
    if (is_log_ || segment_.log_sum_exp != nullptr || segment_.entropy != nullptr) {
      log_sum_ = LogOfRow<T>(total_, segment_.rows.cols);
    }
    WriteNumbers();
    if (segment_.top_values != nullptr) WriteTop();
    if (segment_.values_at != nullptr) WriteValuesAt();
  }

 private:
  static constexpr std::int64_t kAtOnce = 256;

  // A row of another axis is brought together first.
  const In* InputRowOf(std::int64_t row) {
    const Segment& rows = segment_.rows;
    count_ = rows.lengths == nullptr ? rows.cols : rows.lengths[row];
    const In* const first =
        static_cast<const In*>(rows.input) + row / rows.inner * rows.input_stride + row % rows.inner;
    if (rows.inner == 1) return first;
    gathered_row_.resize(static_cast<std::size_t>(count_));
    for (std::int64_t c = 0; c < count_; ++c) gathered_row_[static_cast<std::size_t>(c)] = first[c * rows.inner];
    return gathered_row_.data();
  }

  // The whole answer's values of these elements.
  void ValuesOf(const In* elements, std::int64_t count, Out* out) const {
    if (is_log_) {
      WithLogStep<T, Out>(elements, max_, segment_.rows.scale, log_sum_,
                          [&](const auto& step) HWY_ATTR { WriteRowBy<false>(step, count, out); });
      return;
    }
    const Tag<T> d;
    const auto inverse = hn::Set(d, InverseOfBiased<T>(total_));
    WriteRowBy<false>(ExpStep<T, In, kGrade>{elements, hn::Set(d, max_), inverse, factor_}, count, out);
  }

  void WriteNumbers() const {
    const double max = static_cast<double>(max_) * segment_.rows.scale;
    if (segment_.log_sum_exp != nullptr) {
      WriteNumber(segment_.log_sum_exp, max + log_sum_.high);
      WriteNumber(segment_.maximum, max);
    }
    if (segment_.entropy != nullptr) {
      const double products = SumOfProducts<T, In>(in_, count_, max_, segment_.rows.scale, factor_);
      WriteNumber(segment_.entropy, std::max(0.0, log_sum_.high - products / total_.high));
    }
  }
  void WriteNumber(void* numbers, double value) const { static_cast<T*>(numbers)[row_] = static_cast<T>(value); }

  void WriteTop() const {
    const std::int32_t k = segment_.top_k;
    Out* const values = static_cast<Out*>(segment_.top_values) + row_ * k;
    std::int32_t* const indices = segment_.top_indices + row_ * k;
    TopK<T> top(k);
    OfferRow<T>(in_, count_, &top);
    const std::int32_t found = top.Count();
    const typename TopK<T>::Element* const elements = top.Sort();
    In chosen[kMaxTopK];
    for (std::int32_t i = 0; i < found; ++i) {
      indices[i] = static_cast<std::int32_t>(elements[i].index);
      chosen[i] = in_[elements[i].index];
    }
    ValuesOf(chosen, found, values);
    std::fill(values + found, values + k, masked_);
    std::fill(indices + found, indices + k, -1);
  }

  void WriteValuesAt() const {
    const std::int64_t at = segment_.at;
    const std::int32_t* const indices = segment_.indices + row_ * at;
    Out* const values = static_cast<Out*>(segment_.values_at) + row_ * at;
    In chosen[kAtOnce];
    for (std::int64_t begin = 0; begin < at; begin += kAtOnce) {
      const std::int64_t some = std::min(kAtOnce, at - begin);
      const auto is_there = [&](std::int64_t i) { return indices[begin + i] >= 0 && indices[begin + i] < count_; };
      for (std::int64_t i = 0; i < some; ++i) chosen[i] = in_[is_there(i) ? indices[begin + i] : 0];
      ValuesOf(chosen, some, values + begin);
      for (std::int64_t i = 0; i < some; ++i) {
        if (!is_there(i)) values[begin + i] = masked_;
      }
    }
  }

  // Of a row whose values are NaN.
  void WriteWithoutValues() const {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    if (segment_.top_values != nullptr) {
      const std::int64_t first = row_ * segment_.top_k;
      std::fill_n(static_cast<Out*>(segment_.top_values) + first, segment_.top_k, Constants<Out>::kNan);
      std::fill_n(segment_.top_indices + first, segment_.top_k, -1);
    }
    if (segment_.values_at != nullptr) {
      for (std::int64_t i = row_ * segment_.at; i < (row_ + 1) * segment_.at; ++i) {
        const std::int64_t index = segment_.indices[i];
        const bool is_masked = index < 0 || (index >= count_ && count_ > 0);
        static_cast<Out*>(segment_.values_at)[i] = is_masked ? masked_ : Constants<Out>::kNan;
      }
    }
    if (segment_.log_sum_exp != nullptr) {
      const double number = HasNan() ? kNan : static_cast<double>(max_);
      WriteNumber(segment_.log_sum_exp, number);
      WriteNumber(segment_.maximum, number);
    }
    if (segment_.entropy != nullptr) WriteNumber(segment_.entropy, kNan);
  }
  bool HasNan() const {
    const Tag<T> d;
    for (std::int64_t i = 0; i < count_; i += kLanes<T>) {
      const auto x = LoadSomeVec<T>(in_ + i, count_ - i);
      if (!hn::AllTrue(d, hn::Eq(x, x))) return true;
    }
    return false;
  }

  const SummarySegment& segment_;
  const Factor<T, kGrade>& factor_;
  const bool is_log_;
  const Out masked_;
  std::vector<In> gathered_row_;

  // The row at hand.
  std::int64_t row_ = 0;
  std::int64_t count_ = 0;
  const In* in_ = nullptr;
  T max_ = 0;
  Sum total_ = {};
  Sum log_sum_ = {};
};

template <typename T, typename In, typename Out, Grade kGrade>
void SummarizeWith(const SummarySegment& segment, const Factor<T, kGrade>& factor, std::int64_t begin,
                   std::int64_t end) {
  Summarizer<T, In, Out, kGrade> summarizer(segment, factor);
  for (std::int64_t row = begin; row < end; ++row) summarizer.Run(row);
}

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
