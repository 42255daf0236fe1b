#pragma once

#include "kernels/cuda/summary/small.cuh"
#include "kernels/cuda/summary/top.cuh"

// Summaries of small contiguous rows that take a whole warp each, or half of one. What is left of a row once it has
// been searched waits until there are as many that the lanes can write them side by side: a row's logarithm takes one
// lane, and its largest elements a few.
namespace softmax::kernels::cuda {

template <typename In>
struct WaitingRow {
  RowStats<ComputeOf<In>> stats;
  double products;
  std::int64_t row;
  std::int32_t valid;
  std::int32_t found;  // of its largest elements
  Ranked<In> top[kSmallTopK];
};
// What a warp has in shared memory.
template <typename In>
struct WarpShared {
  Ranked<In> candidates[2 * kSmallTopK];  // for the largest elements of the row that is searched
  WaitingRow<In> waiting[kWaitingRows];
};

// A warp's.
template <typename In>
class WaitingRows {
 public:
  __device__ __forceinline__ WaitingRows(WarpShared<In>& shared, const DeviceSummary& segment, DataType output_type)
      : shared_(shared), segment_(segment), output_type_(output_type) {}

  // The place of the next one, which Add() takes.
  __device__ __forceinline__ WaitingRow<In>& Next() { return shared_.waiting[count_]; }
  __device__ __forceinline__ Ranked<In>* Candidates() { return shared_.candidates; }
  __device__ __forceinline__ void Add() {
    __syncwarp();
    if (++count_ == kWaitingRows) Finish();
  }
  // Writes what is asked of all of them. Before the segment changes.
  __device__ __forceinline__ void Finish() {
    if (count_ > 0) Write(shared_.waiting, count_, segment_, output_type_);
    count_ = 0;
  }

 private:
  using C = ComputeOf<In>;

  __device__ __noinline__ static void Write(const WaitingRow<In>* rows, int count, const DeviceSummary& segment,
                                            DataType output_type) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const auto& scale = *reinterpret_cast<const Scale<C>*>(segment.scale_parts);
    const auto results_of = [&](const WaitingRow<In>& row) {
      const In* const input = static_cast<const In*>(segment.input) + row.row * segment.input_stride;
      return RowResults<In>(segment, output_type, row.row, input, row.valid, row.stats, scale);
    };
    if (lane < count) results_of(rows[lane]).WriteNumbers(rows[lane].products, false);
    const auto k = static_cast<unsigned>(segment.top_k);
    for (unsigned i = static_cast<unsigned>(lane); i < static_cast<unsigned>(count) * k; i += 32) {
      const WaitingRow<In>& row = rows[i / k];
      const auto place = static_cast<std::int32_t>(i % k);
      const RowResults<In> results = results_of(row);
      if (place < row.found) {
        results.WriteTop(place, row.top[place]);
      } else {
        results.WriteNoTop(place);
      }
    }
    __syncwarp();
  }

  WarpShared<In>& shared_;
  const DeviceSummary& segment_;
  const DataType output_type_;
  int count_ = 0;
};

template <typename In, int kSlots>
class WarpSummary {
 public:
  using C = ComputeOf<In>;

  __device__ __forceinline__ WarpSummary(const DeviceSummary& segment, DataType output_type, WaitingRows<In>& waiting)
      : segment_(segment),
        output_type_(output_type),
        waiting_(waiting),
        scale_(*reinterpret_cast<const Scale<C>*>(segment.scale_parts)),
        lanes_{static_cast<int>(threadIdx.x) % 32, 32} {}

  // An item is what the block's warps take at a time: a row each,
  __device__ __forceinline__ void Run(std::int64_t item) {
    const std::int64_t row = item * kBlockWarps + static_cast<int>(threadIdx.x) / 32;
    if (row >= segment_.rows) return;
    const auto valid = static_cast<int>(ValidLength(segment_, row));
    uint4 v[kSlots];
    LoadPart(InputOf(row), valid, Around{false, false}, segment_.wide != 0, lanes_, v);
    const RowStats<C> stats = FirstStats<In, kSlots, true>(segment_.log != 0, v, valid, valid, lanes_, scale_);
    const double products = segment_.entropy == nullptr ? 0 : Products<In>(segment_, v, valid, stats.max, lanes_);
    if (!Take(row, valid, stats, products, v)) SmallSummary<In, kSlots>::RunApart(segment_, output_type_, item);
  }
  // or two of half as many lanes, which look for the largest elements of one after the other together.
  __device__ __forceinline__ void RunPair(std::int64_t item) {
    const Lanes half{lanes_.lane % 16, 16};
    const std::int64_t first = (item * kBlockWarps + static_cast<int>(threadIdx.x) / 32) * 2;
    const std::int64_t mine = min(first + lanes_.lane / 16, segment_.rows - 1);
    if (first >= segment_.rows) return;
    const auto my_valid = static_cast<int>(ValidLength(segment_, mine));
    uint4 v[kNarrowSlots];
    LoadPart(InputOf(mine), my_valid, Around{false, false}, segment_.wide != 0, half, v);
    const RowStats<C> my_stats =
        FirstStats<In, kNarrowSlots, true>(segment_.log != 0, v, my_valid, my_valid, half, scale_);
    const double my_products =
        segment_.entropy == nullptr ? 0 : Products<In>(segment_, v, my_valid, my_stats.max, half);
    for (int i = 0; i < 2 && first + i < segment_.rows; ++i) {
      const RowStats<C> stats(__shfl_sync(0xffffffffu, my_stats.max, 16 * i),
                              __shfl_sync(0xffffffffu, my_stats.sum, 16 * i),
                              __shfl_sync(0xffffffffu, my_stats.low, 16 * i));
      const double products = __shfl_sync(0xffffffffu, my_products, 16 * i);
      const int valid = __shfl_sync(0xffffffffu, my_valid, 16 * i);
      uint4 w[kSlots];
      LoadPart(InputOf(first + i), valid, Around{false, false}, segment_.wide != 0, lanes_, w);
      if (Take(first + i, valid, stats, products, w)) continue;
      // Both rows: the first one is written twice then, with the same results.
      SmallSummary<In, kNarrowSlots>::RunApart(segment_, output_type_, item);
      return;
    }
  }

 private:
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kSteps = 12;  // of a search by halves, after which it has come near or never will

  __device__ __forceinline__ const In* InputOf(std::int64_t row) const {
    return static_cast<const In*>(segment_.input) + row * segment_.input_stride;
  }
  __device__ __forceinline__ int ColumnOf(int j) const { return (j * 32 + lanes_.lane) * kVector; }

  // Searches a row, `v` its elements, and leaves it waiting. False: it is NaN, or very many of its largest are equal.
  __device__ __forceinline__ bool Take(std::int64_t row, int valid, const RowStats<C>& stats, double products,
                                       const uint4 (&v)[kSlots]) {
    const In* const input = InputOf(row);
    WaitingRow<In>& place = waiting_.Next();
    const int found = min(valid, segment_.top_k);
    if (!(stats.max > -Infinity<C>()) || !(stats.sum < Infinity<C>())) return false;
    if (found > 0 && !FindTop(input, v, valid, found, place.top)) return false;
    if (segment_.values_at != nullptr) {
      const RowResults<In> results(segment_, output_type_, row, input, valid, stats, scale_);
      for (std::int64_t i = lanes_.lane; i < segment_.at; i += 32) results.WriteAt(i);
    }
    if (lanes_.lane == 0) {
      place.stats = stats;
      place.products = products;
      place.row = row;
      place.valid = valid;
      place.found = found;
    }
    waiting_.Add();
    return true;
  }

  // Leaves the row's `found` first elements in `top`, in their order: of those that reach a value, about as many, each
  // lane counts for some how many come before. False: very many are equal.
  __device__ __forceinline__ bool FindTop(const In* input, const uint4 (&v)[kSlots], int valid, int found,
                                          Ranked<In>* top) {
    constexpr int kCandidates = 2 * kSmallTopK;
    Ranked<In>* const candidates = waiting_.Candidates();
    C high = 0;
    C low = 0;
    FindThreshold(LaneMaximum<In, kSlots, false>(v, valid, lanes_), found, &low, &high);
    unsigned hits = HitsOf(v, valid, low);
    int count = WarpSum(__popc(hits));
    // Of a lane more than its largest may count.
    for (int step = 0; count > kCandidates && step < kSteps; ++step) {
      const C middle = low / 2 + high / 2;
      const unsigned some = HitsOf(v, valid, middle);
      const int reached = WarpSum(__popc(some));
      if (reached < found) {
        high = middle;
      } else {
        low = middle;
        hits = some;
        count = reached;
      }
    }
    if (count > kCandidates) return false;
    for (int i = WarpSumUpTo(__popc(hits)) - __popc(hits); hits != 0; hits &= hits - 1, ++i) {
      const int bit = __ffs(static_cast<int>(hits)) - 1;
      const int column = ColumnOf(bit / kVector) + bit % kVector;
      candidates[i] = {MakeKey<In>(input[column]), static_cast<std::uint32_t>(column)};
    }
    __syncwarp();
    for (int i = lanes_.lane; i < count; i += 32) {
      const Ranked<In> mine = candidates[i];
      int rank = 0;
#pragma unroll 4
      for (int j = 0; j < count; ++j) rank += candidates[j].IsBefore(mine) ? 1 : 0;
      if (rank < found) top[rank] = mine;
    }
    return true;  // the next row's candidates come behind the barrier of Add()
  }
  // Those of the lane's elements that reach a value, a bit each.
  __device__ __forceinline__ unsigned HitsOf(const uint4 (&v)[kSlots], int valid, C least) const {
    static_assert(kSlots * kVector <= 32);
    unsigned hits = 0;
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      C x[kVector];
      Unpack<In>(v[j], x);
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (x[e] >= least && ColumnOf(j) + e < valid) hits |= 1u << (j * kVector + e);
      }
    }
    return hits;
  }
  // A value that at least `found` of the lanes' maxima reach, in most rows hardly more, and one that fewer reach or
  // that is the largest.
  __device__ __forceinline__ static void FindThreshold(C mine, int found, C* low, C* high) {
    const bool is_there = mine > -Infinity<C>();
    *high = LaneMax(mine, 32);
    *low = -LaneMax(is_there ? -mine : -Infinity<C>(), 32);
    int reached = __popc(__ballot_sync(0xffffffffu, is_there));
    if (reached < found) *low = -Infinity<C>();
    for (int step = 0; reached > found + found / 2 + 1 && step < kSteps; ++step) {
      const C middle = *low / 2 + *high / 2;
      const int now = __popc(__ballot_sync(0xffffffffu, mine >= middle));
      if (now < found) {
        *high = middle;
      } else {
        *low = middle;
        reached = now;
      }
    }
  }

  const DeviceSummary& segment_;
  const DataType output_type_;
  WaitingRows<In>& waiting_;
  const Scale<C>& scale_;
  const Lanes lanes_;
};

}  // namespace softmax::kernels::cuda
