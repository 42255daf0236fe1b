#pragma once

#include "kernels/cuda/summary/results.cuh"
#include "kernels/cuda/summary/top.cuh"

// Summaries of small contiguous rows, which the lanes of a warp hold, one or several. A warp looks for the largest
// elements of one row after the other. What is left of a row then waits until there are as many that the lanes can
// write them side by side: a row's logarithm takes one lane, and its largest elements a few.
namespace softmax::kernels::cuda {

template <typename In>
struct WaitingRow {
  RowStats<ComputeOf<In>> stats;
  double products;
  std::int64_t row;
  std::int32_t valid;
  std::int32_t found;  // of its largest elements
  bool has_nan;
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
      const In* const input = static_cast<const In*>(segment.rows.input) + row.row * segment.rows.input_stride;
      return RowResults<In>(segment, output_type, row.row, input, row.valid, row.stats, scale);
    };
    if (lane < count) results_of(rows[lane]).WriteNumbers(rows[lane].products, rows[lane].has_nan);
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
    const std::int64_t row = item * kBlockWarps + threadIdx.x / 32;
    if (row >= segment_.row_count) return;
    uint4 v[kSlots];
    const Reduced mine = Reduce(row, lanes_, v);
    Take(row, mine, v);
  }
  // or as many as its lanes hold, which look for the largest elements of one after the other together.
  __device__ __forceinline__ void RunSeveral(std::int64_t item) {
    const int count = segment_.lanes;
    const int shift = __ffs(count) - 1;
    const Lanes group{lanes_.lane & (count - 1), count};
    const std::int64_t first = (item * kBlockThreads + threadIdx.x / 32 * 32) >> shift;
    const auto rows = static_cast<int>(min(std::int64_t{32 >> shift}, segment_.row_count - first));
    uint4 v[kNarrowSlots];
    if (rows <= 0) return;
    const Reduced mine = Reduce(first + min(lanes_.lane >> shift, rows - 1), group, v);
#pragma unroll 1
    for (int i = 0; i < rows; ++i) {
      const auto of_row = [&](auto x) { return __shfl_sync(0xffffffffu, x, i * count); };
      const RowStats<C> stats(of_row(mine.stats.max), of_row(mine.stats.sum), of_row(mine.stats.low));
      const Reduced row{stats, of_row(mine.products), of_row(mine.valid)};
      uint4 w[kSlots];
      Load(first + i, row.valid, lanes_, w);
      Take(first + i, row, w);
    }
  }

 private:
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kSteps = 12;  // of a search by halves, after which it has come near or never will

  __device__ __forceinline__ const In* InputOf(std::int64_t row) const {
    return static_cast<const In*>(segment_.rows.input) + row * segment_.rows.input_stride;
  }
  // By the whole warp, each group of lanes its row.
  template <int kMany>
  __device__ __forceinline__ void Load(std::int64_t row, int valid, Lanes lanes, uint4 (&v)[kMany]) const {
    const In* const input = InputOf(row);
    const bool is_wide = __all_sync(0xffffffffu, Misalignment(input) == 0);
    LoadPart(input, valid, Around{false, false}, is_wide, lanes, v);
  }
  struct Reduced {
    RowStats<C> stats;
    double products;
    int valid;
  };
  template <int kMany>
  __device__ __forceinline__ Reduced Reduce(std::int64_t row, Lanes lanes, uint4 (&v)[kMany]) const {
    const auto valid = static_cast<int>(ValidLength(segment_.rows, row));
    Load(row, valid, lanes, v);
    const RowStats<C> stats = FirstStats<In, kMany, true>(segment_.IsLog(), v, valid, valid, lanes, scale_);
    return {stats, segment_.entropy == nullptr ? 0 : Products<In>(segment_, v, valid, stats.max, lanes), valid};
  }
  __device__ __forceinline__ int ColumnOf(int j) const { return (j * 32 + lanes_.lane) * kVector; }

  // Searches a row, `v` its elements, and leaves it waiting.
  __device__ __forceinline__ void Take(std::int64_t row, const Reduced& reduced, const uint4 (&v)[kSlots]) {
    const auto& [stats, products, valid] = reduced;
    const In* const input = InputOf(row);
    WaitingRow<In>& place = waiting_.Next();
    const bool is_nan = RowResults<In>::IsNan(stats);
    int found = is_nan ? 0 : min(valid, segment_.top_k);
    if (found > 0) found = FindTop(input, v, valid, found, place.top);
    const bool has_nan = is_nan && __any_sync(0xffffffffu, HasNan(input, 1, valid, lanes_.lane, 32));
    if (segment_.values_at != nullptr) {
      RowResults<In>(segment_, output_type_, row, input, valid, stats, scale_).WriteAt(lanes_.lane, 32);
    }
    if (lanes_.lane == 0) {
      place.stats = stats;
      place.products = products;
      place.row = row;
      place.valid = valid;
      place.found = found;
      place.has_nan = has_nan;
    }
    waiting_.Add();
  }

  // Leaves the row's `found` first elements in `top`, in their order: of those that reach a value, about as many, each
  // lane counts for some how many come before. Returns how many: fewer where the row was changed since its statistics
  // were taken.
  __device__ __forceinline__ int FindTop(const In* input, const uint4 (&v)[kSlots], int valid, int found,
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
    if (count > kCandidates) {
      FindTopInTurn(input, valid, found, top);
      return found;
    }
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
    return min(found, count);  // the next row's candidates come behind the barrier of Add()
  }
  // The same one after the other, where very many are equal.
  __device__ __noinline__ static void FindTopInTurn(const In* input, int valid, int found, Ranked<In>* top) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Ranked<In> last{static_cast<KeyOf<In>>(~KeyOf<In>{0}), 0};  // the key of no element: all come after it
    for (int i = 0; i < found; ++i) {
      Ranked<In> best{0, 0xffffffffu};
      for (int c = lane; c < valid; c += 32) {
        const Ranked<In> mine{MakeKey<In>(input[c]), static_cast<std::uint32_t>(c)};
        if (last.IsBefore(mine) && mine.IsBefore(best)) best = mine;
      }
      for (int offset = 16; offset > 0; offset >>= 1) {
        const Ranked<In> other{__shfl_xor_sync(0xffffffffu, best.key, offset),
                               __shfl_xor_sync(0xffffffffu, best.index, offset)};
        if (other.IsBefore(best)) best = other;
      }
      if (lane == 0) top[i] = best;
      last = best;
    }
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
  // A value that at least `found` of the lanes' maxima reach, in most rows hardly more, and one that fewer reach.
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
