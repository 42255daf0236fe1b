#pragma once

#include "kernels/cuda/core/part.cuh"
#include "kernels/cuda/summary/summary.h"
#include "kernels/cuda/summary/top.cuh"

// What a row's summary is made of once its statistics are known.
namespace softmax::kernels::cuda {

// The part that elements x have in the entropy of a chunk: the sum of exp(d) * d, d = scale * (x - max).
template <typename C>
__device__ __forceinline__ double EntropyTerm(C x, C max, double scale) {
  const double d = (static_cast<double>(x) - static_cast<double>(max)) * scale;
  if (!(d > -700)) return 0;  // nothing, and -inf
  if constexpr (sizeof(C) == 4) {
    const auto f = static_cast<float>(d);
    return expf(f) * f;
  } else {
    return exp(d) * d;
  }
}

// The sum of these of a part's first n elements, which its lanes hold.
template <typename In, int kSlots>
__device__ __forceinline__ double Products(const DeviceSummary& segment, const uint4 (&v)[kSlots], int n,
                                           ComputeOf<In> max, Lanes lanes) {
  double sum = 0;
#pragma unroll
  for (int j = 0; j < kSlots; ++j) {
    ComputeOf<In> x[Element<In>::kVector];
    Unpack<In>(v[j], x);
    const int at = (j * lanes.count + lanes.lane) * Element<In>::kVector;
#pragma unroll
    for (int e = 0; e < Element<In>::kVector; ++e) {
      if (at + e < n) sum += EntropyTerm(x[e], max, segment.rows.scale);
    }
  }
  return LaneSum(sum, lanes.count);
}

// Whether there is a NaN among the elements that one of so many threads looks at.
template <typename In>
__device__ __noinline__ bool HasNan(const In* input, std::int64_t inner, std::int64_t valid, int thread, int threads) {
  bool found = false;
#pragma unroll 1
  for (std::int64_t c = thread; c < valid; c += threads) {
    const ComputeOf<In> x = ToCompute(input[c * inner]);
    found = found || x != x;
  }
  return found;
}

template <typename In>
class RowResults {
 public:
  using C = ComputeOf<In>;

  // `input`: the row's first element.
  __device__ RowResults(const DeviceSummary& segment, DataType output_type, std::int64_t row, const In* input,
                        std::int64_t valid, const RowStats<C>& stats, const Scale<C>& scale)
      : segment_(segment),
        output_type_(output_type),
        row_(row),
        input_(input),
        valid_(valid),
        stats_(stats),
        normalize_(scale, stats, segment.IsLog(), valid == 0),
        is_nan_(IsNan(stats)) {}

  // Whether all the whole answer's elements are NaN.
  __device__ static bool IsNan(const RowStats<C>& stats) {
    return stats.max == -Infinity<C>() || !(stats.sum < Infinity<C>());
  }
  __device__ bool is_nan() const { return is_nan_; }

  // By one thread. `products`: the sum of exp(d) * d over the row.
  __device__ void WriteNumbers(double products, bool has_nan) const {
    double log_sum = NAN;
    const double max = static_cast<double>(stats_.max) * segment_.rows.scale;
    if (!is_nan_) {
      C low;
      log_sum = LogTwo(stats_.sum, stats_.low, &low);
      log_sum += low;
    }
    if (segment_.log_sum_exp != nullptr) {
      Number(segment_.log_sum_exp, has_nan ? NAN : is_nan_ ? static_cast<double>(stats_.max) : max + log_sum);
      Number(segment_.maximum, has_nan ? NAN : max);
    }
    if (segment_.entropy != nullptr) {
      const double sum = static_cast<double>(stats_.sum) + static_cast<double>(stats_.low);
      Number(segment_.entropy, is_nan_ ? NAN : fmax(0.0, log_sum - products / sum));
    }
  }
  // What comes at place i of the top.
  __device__ void WriteTop(std::int32_t i, const Ranked<In>& element) const {
    const C x = ToCompute(ElementOfKey<In>(element.key));
    // Of zeros the sign is looked up.
    StoreTop(i, static_cast<std::int32_t>(element.index),
             ResultOf(x == 0 ? ToCompute(input_[element.index * segment_.rows.inner]) : x));
  }
  // The same where there is none left.
  __device__ void WriteNoTop(std::int32_t i) const { StoreTop(i, -1, is_nan_ ? C(NAN) : Nothing()); }
  // The chosen elements, by one of so many threads.
  __device__ void WriteAt(int thread, int threads) const {
    for (std::int64_t i = thread; i < segment_.at; i += threads) {
      const std::int64_t place = row_ * segment_.at + i;
      const std::int32_t index = segment_.indices[place];
      Store(segment_.values_at, place,
            index < 0         ? Nothing()
            : index >= valid_ ? normalize_.masked
                              : ResultOf(ToCompute(input_[index * segment_.rows.inner])));
    }
  }

 private:
  __device__ C ResultOf(C element) const {
    C x[1] = {element};
    normalize_.template Apply<In, false>(x);
    return x[0];
  }
  __device__ C Nothing() const { return segment_.IsLog() ? -Infinity<C>() : C(0); }
  __device__ void Number(void* numbers, double value) const { static_cast<C*>(numbers)[row_] = static_cast<C>(value); }
  __device__ void StoreTop(std::int32_t i, std::int32_t index, C value) const {
    const std::int64_t place = row_ * segment_.top_k + i;
    segment_.top_indices[place] = index;
    Store(segment_.top_values, place, value);
  }
  __device__ void Store(void* values, std::int64_t place, C value) const {
    ForAnyType(output_type_, [&](auto* type) {
      using Out = std::remove_pointer_t<decltype(type)>;
      static_cast<Out*>(values)[place] = FromCompute<Out, C>(value);
    });
  }

  const DeviceSummary& segment_;
  const DataType output_type_;
  const std::int64_t row_;
  const In* const input_;
  const std::int64_t valid_;
  const RowStats<C> stats_;
  const Normalizer<C> normalize_;
  const bool is_nan_;
};

}  // namespace softmax::kernels::cuda
