#pragma once

#include "kernels/cuda/summary/results.cuh"
#include "kernels/cuda/summary/top.cuh"

// Summaries of small contiguous rows: a group of lanes holds a row in registers and finds its largest elements one
// after the other. For rows of less than half a warp, and for those that summary/warp.cuh leaves.
namespace softmax::kernels::cuda {

template <typename In, int kSlots>
class SmallSummary {
 public:
  using C = ComputeOf<In>;

  __device__ __forceinline__ SmallSummary(const DeviceSummary& segment, DataType output_type, const Scale<C>& scale)
      : segment_(segment),
        output_type_(output_type),
        scale_(scale),
        lanes_{static_cast<int>(threadIdx.x) & (static_cast<int>(segment.lanes) - 1), static_cast<int>(segment.lanes)} {
  }

  // Run() as a function of its own, for callers that rarely need it.
  __device__ __noinline__ static void RunApart(const DeviceSummary& segment, DataType output_type, std::int64_t item) {
    SmallSummary(segment, output_type, *reinterpret_cast<const Scale<C>*>(segment.scale_parts)).Run(item);
  }
  // An item is what the block's warps take at a time. Lanes without a row go along: the shuffles need whole warps.
  __device__ void Run(std::int64_t item) {
    std::int64_t row = (item * kBlockThreads + threadIdx.x) >> (__ffs(lanes_.count) - 1);
    const bool active = row < segment_.rows;
    if (!active) row = 0;
    valid_ = active ? static_cast<int>(ValidLength(segment_, row)) : 0;
    const int valid = valid_;
    const In* const input = static_cast<const In*>(segment_.input) + row * segment_.input_stride;
    LoadPart(input, valid, Around{false, false}, segment_.wide != 0, lanes_, v_);
    const RowStats<C> stats = FirstStats<In, kSlots, true>(segment_.log != 0, v_, valid, valid, lanes_, scale_);
    const RowResults<In> results(segment_, output_type_, row, input, valid, stats, scale_);
    if (segment_.log_sum_exp != nullptr || segment_.entropy != nullptr) {
      const double products = segment_.entropy == nullptr ? 0 : Products<In>(segment_, v_, valid, stats.max, lanes_);
      const bool has_nan = HasNan(valid, stats);
      if (active && lanes_.lane == 0) results.WriteNumbers(products, has_nan);
    }
    if (active && segment_.values_at != nullptr) {
      for (std::int64_t i = lanes_.lane; i < segment_.at; i += lanes_.count) results.WriteAt(i);
    }
    if (segment_.top_values != nullptr) WriteTop(row, active, results);
  }

 private:
  static constexpr int kVector = Element<In>::kVector;
  using Key = KeyOf<In>;

  __device__ __forceinline__ int ColumnOf(int j) const { return (j * lanes_.count + lanes_.lane) * kVector; }

  // Not that of +inf alone, which makes the sum NaN, too.
  __device__ bool HasNan(int valid, const RowStats<C>& stats) const {
    const bool is_number = stats.sum < Infinity<C>();
    if (__ballot_sync(0xffffffffu, !is_number) == 0) return false;
    int found = 0;
    if (!is_number) {
#pragma unroll
      for (int j = 0; j < kSlots; ++j) {
        C x[kVector];
        Unpack<In>(v_[j], x);
#pragma unroll
        for (int e = 0; e < kVector; ++e) found |= ColumnOf(j) + e < valid && x[e] != x[e] ? 1 : 0;
      }
    }
    for (int offset = lanes_.count >> 1; offset > 0; offset >>= 1) found |= __shfl_xor_sync(0xffffffffu, found, offset);
    return found != 0;
  }

  // The first of the lane's elements that come after `last` in the order; key 0: there is none.
  __device__ __forceinline__ Ranked<In> BestAfter(const uint4 (&v)[kSlots], const Ranked<In>& last) const {
    Ranked<In> best{0, 0xffffffffu};
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      In x[kVector];
      memcpy(x, &v[j], sizeof(x));
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const Ranked<In> mine{MakeKey<In>(x[e]), static_cast<std::uint32_t>(ColumnOf(j) + e)};
        if (ColumnOf(j) + e < valid_ && last.IsBefore(mine) && mine.IsBefore(best)) best = mine;
      }
    }
    return best;
  }
  __device__ __forceinline__ Ranked<In> BestOfLanes(Ranked<In> best) const {
#if __CUDA_ARCH__ >= 800
    if constexpr (sizeof(Key) == 4) {
      if (lanes_.count == 32) {
        const std::uint32_t key = __reduce_max_sync(0xffffffffu, best.key);
        return {key, __reduce_min_sync(0xffffffffu, best.key == key ? best.index : 0xffffffffu)};
      }
    }
#endif
    for (int offset = lanes_.count >> 1; offset > 0; offset >>= 1) {
      const Ranked<In> other{__shfl_xor_sync(0xffffffffu, best.key, offset),
                             __shfl_xor_sync(0xffffffffu, best.index, offset)};
      if (other.IsBefore(best)) best = other;
    }
    return best;
  }

  // The first `left` of each row, one after the other, `most` at most.
  __device__ __forceinline__ void WriteTopInTurn(std::int64_t row, int most, int left,
                                                 const RowResults<In>& results) const {
    uint4 v[kSlots];  // read anew: nobody had to hold them
    const In* const input = static_cast<const In*>(segment_.input) + row * segment_.input_stride;
    LoadPart(input, valid_, Around{false, false}, segment_.wide != 0, lanes_, v);
    // The key of no element: all come after it.
    Ranked<In> last{static_cast<Key>(~Key{0}), 0};
    Ranked<In> mine = BestAfter(v, last);
    for (int i = 0; i < most; ++i) {
      last = BestOfLanes(mine);
      if (i < left && lanes_.lane == i % lanes_.count) results.WriteTop(i, last);
      if (mine.index == last.index) mine = BestAfter(v, last);
    }
  }

  // `row`: of the calling lanes; `active`: there is one.
  __device__ void WriteTop(std::int64_t row, bool active, const RowResults<In>& results) const {
    const int found = results.is_nan() || !active ? 0 : min(valid_, segment_.top_k);
    const int most = LargestInWarp(found);
    if (most > 0) WriteTopInTurn(row, most, found, results);
    for (int i = found + lanes_.lane; active && i < segment_.top_k; i += lanes_.count) results.WriteNoTop(i);
  }
  // The largest in the warp, so that all its lanes go round as often.
  __device__ static int LargestInWarp(int value) {
    for (int offset = 16; offset > 0; offset >>= 1) value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
  }

  const DeviceSummary& segment_;
  const DataType output_type_;
  const Scale<C>& scale_;
  const Lanes lanes_;
  uint4 v_[kSlots];
  int valid_ = 0;
};

}  // namespace softmax::kernels::cuda
