// Summaries of rows: their largest elements, chosen ones and normalizers, once per Highway target. The values are those
// of the whole answer: the same maximum, the same sum and the same last step, on the elements that are asked for.
#if defined(SOFTMAX_KERNELS_CPU_SUMMARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SOFTMAX_KERNELS_CPU_SUMMARY_INL_H_
#undef SOFTMAX_KERNELS_CPU_SUMMARY_INL_H_
#else
#define SOFTMAX_KERNELS_CPU_SUMMARY_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/cpu/rows-inl.h"
#include "kernels/cpu/top_k.h"
#include "kernels/operations.h"
#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace softmax::kernels::cpu {
namespace HWY_NAMESPACE {

// A number that at least k of the elements are not below, as near as a few comparisons bring it: the k-th largest of
// the largest elements of somewhat more than k parts of the row. Minus infinity where parts would be of one element.
template <typename T, typename In>
HWY_NOINLINE T BoundOfTop(const In* in, std::int64_t count, std::int32_t k) {
  constexpr std::int64_t kL = kLanes<T>;
  const std::int64_t parts = (k + k / 4 + kL - 1) / kL;  // each of them kL parts, one a lane
  const std::int64_t vecs = count / kL / parts;
  if (vecs < 2) return Constants<T>::kNegativeInfinity;
  HWY_ALIGN T largest[kMaxTopK + kMaxTopK / 4 + kL];
  for (std::int64_t part = 0; part < parts; ++part) {
    hn::Store(MaxOfLanes<T>(in + part * vecs * kL, vecs * kL), Tag<T>(), largest + part * kL);
  }
  std::nth_element(largest, largest + k - 1, largest + parts * kL, std::greater<T>());
  return largest[k - 1];
}

template <typename T>
HWY_INLINE hn::Mask<Tag<T>> MayBeAmong(const TopK<T>& top, VecOf<T> x) {
  const auto threshold = hn::Set(Tag<T>(), top.threshold());
  return top.is_strict() ? hn::Gt(x, threshold) : hn::Ge(x, threshold);
}

// Offers those of a vector's first `count` elements that may be among the largest.
template <typename T>
HWY_INLINE void OfferVec(VecOf<T> x, std::int64_t first, std::int64_t count, TopK<T>* top) {
  const Tag<T> d;
  const auto is_offered = MayBeAmong(*top, x);
  if (hn::AllFalse(d, is_offered)) return;
  std::uint64_t offered = 0;
  hn::StoreMaskBits(d, is_offered, reinterpret_cast<std::uint8_t*>(&offered));
  HWY_ALIGN T lanes[kLanes<T>];
  hn::Store(x, d, lanes);
  for (; offered != 0; offered &= offered - 1) {
    const int lane = std::countr_zero(offered);
    if (lane < count) top->Offer(lanes[lane], first + lane);
  }
}

// Offers all elements that may be among the largest. Few may: one comparison finds that of four vectors none has any.
template <typename T, typename In>
HWY_NOINLINE void OfferRow(const In* in, std::int64_t count, TopK<T>* top) {
  constexpr std::int64_t kL = kLanes<T>;
  const auto load = [in](std::int64_t i) HWY_ATTR { return LoadVec<T>(in + i); };
  std::int64_t i = 0;
  for (; i + 4 * kL <= count; i += 4 * kL) {
    const auto largest = hn::Max(hn::Max(load(i), load(i + kL)), hn::Max(load(i + 2 * kL), load(i + 3 * kL)));
    if (HWY_LIKELY(hn::AllFalse(Tag<T>(), MayBeAmong(*top, largest)))) continue;
    for (std::int64_t first = i; first < i + 4 * kL; first += kL) OfferVec(load(first), first, kL, top);
  }
  for (; i < count; i += kL) OfferVec(LoadSomeVec<T>(in + i, count - i), i, count - i, top);
}

// The sum of exp(d) * d over the row, d = (x - max) * scale, biased as exp(d) is. Column c goes to partial sum
// c % kPartials, on every target.
template <typename T, typename In, Grade kGrade>
HWY_NOINLINE double SumOfProducts(const In* in, std::int64_t count, T max, double scale,
                                  const Factor<T, kGrade>& factor) {
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

// What is known of a row that has values.
template <typename T>
struct RowTotals {
  T max;
  Sum total;
  Sum log_sum;  // where it is needed
};

// Writes values of one answer type: what the whole answer has for these elements, `x`, and constants.
template <typename T>
struct ValueWriter {
  void (*values)(const Segment& segment, const AnyFactor<T>& factor, const RowTotals<T>& row, const T* x,
                 std::int64_t count, void* values, std::int64_t first);
  void (*fill)(const Segment& segment, bool is_nan, std::int64_t count, void* values, std::int64_t first);
};

template <typename T, typename Out>
HWY_NOINLINE void WriteValues(const Segment& segment, const AnyFactor<T>& factor, const RowTotals<T>& row, const T* x,
                              std::int64_t count, void* values, std::int64_t first) {
  Out* const out = static_cast<Out*>(values) + first;
  if (TraitsOf(segment.operation).is_log) {
    LogRow<T>(x, count, row.max, segment.scale, row.log_sum, false, out);
  } else {
    ExpRow<T>(x, count, row.max, factor, InverseOfBiased<T>(row.total), false, out);
  }
}

template <typename Out>
void FillValues(const Segment& segment, bool is_nan, std::int64_t count, void* values, std::int64_t first) {
  std::fill_n(static_cast<Out*>(values) + first, count,
              is_nan ? Constants<Out>::kNan : MaskedValue<Out>(segment.operation));
}

template <typename T, typename In>
class Summarizer {
 public:
  Summarizer(const SummarySegment& segment, const AnyFactor<T>& factor, const ValueWriter<T>& writer)
      : segment_(segment),
        factor_(factor),
        writer_(writer),
        needs_log_(TraitsOf(segment.rows.operation).is_log || segment.log_sum_exp != nullptr ||
                   segment.entropy != nullptr) {}

  HWY_NOINLINE void Run(std::int64_t row) {
    row_ = row;
    in_ = InputRowOf(row);
    totals_.max = MaxOfRow<T>(in_, count_);
    if (!std::isfinite(totals_.max)) return WriteWithoutValues();
    totals_.total = SumOfRow<T, In>(in_, count_, NextRow(in_, count_), totals_.max, factor_, nullptr);
    if (std::isnan(totals_.total.high)) return WriteWithoutValues();
    if (needs_log_) totals_.log_sum = LogOfRow<T>(totals_.total, segment_.rows.cols);
    WriteNumbers();
    if (segment_.top_k != 0) WriteTop();
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

  void WriteNumbers() const {
    const double max = static_cast<double>(totals_.max) * segment_.rows.scale;
    if (segment_.log_sum_exp != nullptr) {
      WriteNumber(segment_.log_sum_exp, max + totals_.log_sum.high);
      WriteNumber(segment_.maximum, max);
    }
    if (segment_.entropy != nullptr) {
      const double products = WithGrade(factor_, [&](const auto& graded) HWY_ATTR {
        return SumOfProducts<T>(in_, count_, totals_.max, segment_.rows.scale, graded);
      });
      WriteNumber(segment_.entropy, std::max(0.0, totals_.log_sum.high - products / totals_.total.high));
    }
  }
  void WriteNumber(void* numbers, double value) const { static_cast<T*>(numbers)[row_] = static_cast<T>(value); }

  void WriteChosen(const In* chosen, std::int64_t count, void* values, std::int64_t first) const {
    HWY_ALIGN T x[kMaxTopK];
    WidenRow<T>(chosen, count, x);
    writer_.values(segment_.rows, factor_, totals_, x, count, values, first);
  }

  void WriteTop() const {
    const std::int64_t k = segment_.top_k;
    std::int32_t* const indices = segment_.top_indices + row_ * k;
    TopK<T> top(segment_.top_k, BoundOfTop<T>(in_, count_, segment_.top_k));
    OfferRow<T>(in_, count_, &top);
    const std::int32_t found = top.Count();
    const typename TopK<T>::Element* const elements = top.Sort();
    In chosen[kMaxTopK];
    for (std::int32_t i = 0; i < found; ++i) {
      indices[i] = static_cast<std::int32_t>(elements[i].index);
      chosen[i] = in_[elements[i].index];
    }
    WriteChosen(chosen, found, segment_.top_values, row_ * k);
    writer_.fill(segment_.rows, false, k - found, segment_.top_values, row_ * k + found);
    std::fill(indices + found, indices + k, -1);
  }

  void WriteValuesAt() const {
    const std::int64_t at = segment_.at;
    const std::int32_t* const indices = segment_.indices + row_ * at;
    In chosen[kAtOnce];
    for (std::int64_t begin = 0; begin < at; begin += kAtOnce) {
      const std::int64_t some = std::min(kAtOnce, at - begin);
      const auto is_there = [&](std::int64_t i) { return indices[begin + i] >= 0 && indices[begin + i] < count_; };
      for (std::int64_t i = 0; i < some; ++i) chosen[i] = in_[is_there(i) ? indices[begin + i] : 0];
      WriteChosen(chosen, some, segment_.values_at, row_ * at + begin);
      for (std::int64_t i = 0; i < some; ++i) {
        if (!is_there(i)) writer_.fill(segment_.rows, false, 1, segment_.values_at, row_ * at + begin + i);
      }
    }
  }

  // Of a row whose values are NaN.
  void WriteWithoutValues() const {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    if (segment_.top_values != nullptr) {
      const std::int64_t k = segment_.top_k;
      writer_.fill(segment_.rows, true, k, segment_.top_values, row_ * k);
      std::fill_n(segment_.top_indices + row_ * k, k, -1);
    }
    if (segment_.values_at != nullptr) {
      for (std::int64_t i = row_ * segment_.at; i < (row_ + 1) * segment_.at; ++i) {
        const std::int64_t index = segment_.indices[i];
        const bool is_masked = index < 0 || (index >= count_ && count_ > 0);
        writer_.fill(segment_.rows, !is_masked, 1, segment_.values_at, i);
      }
    }
    if (segment_.log_sum_exp != nullptr) {
      const double number = HasNan() ? kNan : static_cast<double>(totals_.max);
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
  const AnyFactor<T>& factor_;
  const ValueWriter<T> writer_;
  const bool needs_log_;
  std::vector<In> gathered_row_;

  // The row at hand.
  std::int64_t row_ = 0;
  std::int64_t count_ = 0;
  const In* in_ = nullptr;
  RowTotals<T> totals_ = {};
};

}  // namespace HWY_NAMESPACE
}  // namespace softmax::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
