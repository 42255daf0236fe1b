#pragma once

#include "kernels/cuda/summary/keys.cuh"
#include "kernels/cuda/summary/results.cuh"

// Summaries of small contiguous rows: a group of lanes holds a row in registers and finds its largest elements one
// after the other.
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

  // An item is what the block's warps take at a time. Lanes without a row go along: the shuffles need whole warps.
  __device__ void Run(std::int64_t item) {
    std::int64_t row = (item * kBlockThreads + threadIdx.x) / lanes_.count;
    const bool active = row < segment_.rows;
    if (!active) row = 0;
    valid_ = active ? static_cast<int>(ValidLength(segment_, row)) : 0;
    const int valid = valid_;
    const In* const input = static_cast<const In*>(segment_.input) + row * segment_.input_stride;
    LoadPart(input, valid, Around{false, false}, segment_.wide != 0, lanes_, v_);
    const RowStats<C> stats = FirstStats<In, kSlots, true>(segment_.log != 0, v_, valid, valid, lanes_, scale_);
    const RowResults<In> results(segment_, output_type_, row, input, valid, stats, scale_);
    if (segment_.log_sum_exp != nullptr || segment_.entropy != nullptr) {
      const double products = segment_.entropy == nullptr ? 0 : Products(valid, stats.max);
      const bool has_nan = HasNan(valid, stats);
      if (active && lanes_.lane == 0) results.WriteNumbers(products, has_nan);
    }
    if (active && segment_.values_at != nullptr) {
      for (std::int64_t i = lanes_.lane; i < segment_.at; i += lanes_.count) results.WriteAt(i);
    }
    if (segment_.top_values != nullptr) WriteTop(results, active);
  }

 private:
  static constexpr int kVector = Element<In>::kVector;
  using Key = KeyOf<In>;

  __device__ __forceinline__ int ColumnOf(int j) const { return (j * lanes_.count + lanes_.lane) * kVector; }

  __device__ double Products(int valid, C max) const {
    double sum = 0;
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      C x[kVector];
      Unpack<In>(v_[j], x);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (ColumnOf(j) + e < valid) sum += EntropyTerm(x[e], max, segment_.scale);
      }
    }
    return LaneSum(sum, lanes_.count);
  }
  // Not that of +inf alone, which makes the sum NaN, too.
  __device__ bool HasNan(int valid, const RowStats<C>& stats) const {
    int found = 0;
    if (!(stats.sum < Infinity<C>())) {
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
  __device__ __forceinline__ Ranked<In> BestAfter(const Ranked<In>& last) const {
    Ranked<In> best{0, 0xffffffffu};
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      In x[kVector];
      memcpy(x, &v_[j], sizeof(x));
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

  // Where a warp holds one row: the elements that reach the k-th largest of the lanes' maxima, about k of them, a lane
  // each, find their places by counting. False: they are more than the lanes.
  __device__ bool WriteTopOfWarp(const RowResults<In>& results, int found) const {
    __shared__ std::uint32_t collected[kBlockWarps][32];
    __shared__ Key collected_keys[kBlockWarps][32];
    const int warp = static_cast<int>(threadIdx.x) / 32;
    Key keys[kSlots * kVector];
    Key best = 0;
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      In x[kVector];
      memcpy(x, &v_[j], sizeof(x));
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        const Key key = ColumnOf(j) + e < valid_ ? MakeKey<In>(x[e]) : Key{0};
        keys[j * kVector + e] = key;
        best = key > best ? key : best;
      }
    }
    int larger = 0;
#pragma unroll 8
    for (int lane = 0; lane < 32; ++lane) larger += __shfl_sync(0xffffffffu, best, lane) > best ? 1 : 0;
    // The smallest of the maxima that fewer than `found` exceed.
    Key threshold = larger < found ? best : static_cast<Key>(~Key{0});
    for (int offset = 16; offset > 0; offset >>= 1) {
      const Key other = __shfl_xor_sync(0xffffffffu, threshold, offset);
      threshold = other < threshold ? other : threshold;
    }
    if (threshold == 0) threshold = 1;  // fewer lanes have elements than are asked for: all elements
    int count = 0;
#pragma unroll
    for (int p = 0; p < kSlots * kVector; ++p) {
      const bool reaches = keys[p] >= threshold;
      const unsigned who = __ballot_sync(0xffffffffu, reaches);
      if (who == 0) continue;
      const int place = count + __popc(who & ((1u << lanes_.lane) - 1));
      if (reaches && place < 32) {
        collected[warp][place] = static_cast<std::uint32_t>(ColumnOf(p / kVector) + p % kVector);
        collected_keys[warp][place] = keys[p];
      }
      count += __popc(who);
    }
    if (count > 32) return false;
    __syncwarp();
    if (lanes_.lane < count) {
      const Ranked<In> mine{collected_keys[warp][lanes_.lane], collected[warp][lanes_.lane]};
      int before = 0;
      for (int i = 0; i < count; ++i) {
        before += Ranked<In>{collected_keys[warp][i], collected[warp][i]}.IsBefore(mine) ? 1 : 0;
      }
      if (before < found) results.WriteTop(before, static_cast<std::int32_t>(mine.index));
    }
    __syncwarp();
    return true;
  }

  __device__ void WriteTop(const RowResults<In>& results, bool active) const {
    const int found = results.is_nan() || !active ? 0 : min(valid_, segment_.top_k);
    const bool is_done = lanes_.count == 32 && (found == 0 || WriteTopOfWarp(results, found));
    // The key of no element: all come after it.
    Ranked<In> last{static_cast<Key>(~Key{0}), 0};
    Ranked<In> mine = is_done ? last : BestAfter(last);
    const int most = is_done ? 0 : LargestInWarp(found);
    for (int i = 0; i < most; ++i) {
      last = BestOfLanes(mine);
      if (i < found && lanes_.lane == i % lanes_.count) results.WriteTop(i, static_cast<std::int32_t>(last.index));
      if (mine.index == last.index) mine = BestAfter(last);
    }
    for (int i = found + lanes_.lane; active && i < segment_.top_k; i += lanes_.count) results.WriteTop(i, -1);
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
