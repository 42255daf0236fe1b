#pragma once

#include "kernels/cuda/blocks/chunk_table.cuh"
#include "kernels/cuda/summary/read.cuh"
#include "kernels/cuda/summary/top.cuh"

// Summaries of rows once their chunks are read (summary/summary.h), by a block each; of small rows with a large top or
// over another axis, which it reads itself.
namespace softmax::kernels::cuda {

template <typename In>
struct SummaryShared {
  using C = ComputeOf<In>;
  DeviceSummary segment;
  TopShared<In> top;
  Stats<C> table[kFlatChunks];
  KeyOf<In> keys[kFlatChunks];  // of the chunks' maxima
  RowStats<C> row;
  double products;
  unsigned char* tables;
  DataType output_type;
};
// The block's own. Found by name: behind a reference the compiler would not know that it is shared memory.
template <typename In>
__device__ __forceinline__ SummaryShared<In>& TheShared() {
  __shared__ __align__(16) unsigned char bytes[sizeof(SummaryShared<In>)];
  return *reinterpret_cast<SummaryShared<In>*>(bytes);
}

// Its state takes many registers, so that the larger steps are functions of their own (Apart), which make it anew.
// Those that are not needed are not fetched then, either: the time of few rows is that of bringing in the instructions.
template <typename In>
class RowSummary {
 public:
  using C = ComputeOf<In>;
  using Key = KeyOf<In>;

  __device__ __forceinline__ explicit RowSummary(int row)
      : shared_(TheShared<In>()),
        of_(shared_.tables, shared_.segment, row),
        lanes_{static_cast<int>(threadIdx.x) % 32, 32},
        thread_(static_cast<int>(threadIdx.x)),
        threads_(static_cast<int>(blockDim.x)) {}

  // Writes what is asked of the row; by the whole block.
  __device__ __forceinline__ void Run() {
    const auto most = static_cast<int>(min(of_.valid, std::int64_t{of_.segment.top_k}));
    if (!IsSmall() && IsFlat()) FetchChunks();
    // The largest are looked for while the statistics are folded.
    if (thread_ >= 32) {
      if (most > 0) Apart<&RowSummary::FindTop>(of_.row, most);
    } else if (IsSmall()) {
      Apart<&RowSummary::ReduceSmallRow>(of_.row);
    } else {
      Apart<&RowSummary::FoldRow>(of_.row);
    }
    __syncthreads();
    const RowResults<In> results(of_.segment, shared_.output_type, of_.row, of_.input, of_.valid, shared_.row,
                                 of_.scale);
    const bool has_nan =
        results.is_nan() && of_.segment.log_sum_exp != nullptr &&
        __syncthreads_or(HasNan(of_.input, of_.segment.rows.inner, of_.valid, thread_, threads_) ? 1 : 0);
    if (of_.segment.values_at != nullptr) results.WriteAt(thread_, threads_);
    // By another warp than those that have the top to write.
    if (thread_ == threads_ - 1) results.WriteNumbers(shared_.products, has_nan);
    if (of_.segment.top_values != nullptr) {
      const TopShared<In>& top = shared_.top;
      // Fewer than `most`: the row was changed while it was read.
      const int found = results.is_nan() ? 0 : min(most, top.count);
      for (int i = thread_; found > 0 && i < top.count; i += threads_) {
        const int rank = top.order.ranks[i];
        if (rank < found) results.WriteTop(rank, Ranked<In>{top.keys[i], top.indices[i]});
      }
      for (int i = found + thread_; i < of_.segment.top_k; i += threads_) results.WriteNoTop(i);
    }
    __syncthreads();  // the next row uses the same shared memory
  }

 private:
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kStep = 32 * kVector;

  template <auto kStep, typename... Arguments>
  __device__ __noinline__ static auto Apart(int row, Arguments... arguments) {
    return (RowSummary(row).*kStep)(arguments...);
  }

  __device__ __forceinline__ bool IsSmall() const { return of_.segment.rows.cols <= Element<In>::kSmall; }
  // Whether there is room in shared memory for the chunks' statistics. Other rows have the maxima of all lanes.
  __device__ __forceinline__ bool IsFlat() const { return of_.chunks <= kFlatChunks; }
  // Chunks with valid elements.
  __device__ __forceinline__ int UsedChunks() const { return static_cast<int>((of_.valid + kChunk - 1) / kChunk); }
  __device__ __forceinline__ Key ElementKey(std::int64_t column) const {
    return MakeKey<In>(of_.input[column * of_.segment.rows.inner]);
  }

  // By one warp, of which the first lanes hold the row as they would a small contiguous one.
  __device__ void ReduceSmallRow() {
    constexpr int kSlots = SmallSlots(sizeof(In));
    const int count = of_.segment.lanes;
    const Lanes lanes{lanes_.lane & (count - 1), count};
    const auto n = static_cast<int>(of_.valid);
    uint4 v[kSlots];
    of_.LoadVectors(0, n, lanes, v);
    const RowStats<C> stats = FirstStats<In, kSlots, true>(of_.segment.IsLog(), v, n, n, lanes, of_.scale);
    SetRow(stats, of_.segment.entropy == nullptr ? 0 : Products<In>(of_.segment, v, n, stats.max, lanes));
  }
  __device__ __forceinline__ void SetRow(const RowStats<C>& stats, double products) {
    if (lanes_.lane != 0) return;
    shared_.row = stats;
    shared_.products = products;
  }

  // Other blocks have written it: not from the L1.
  __device__ static Stats<C> Fetch(const Stats<C>* entry) { return {__ldcg(&entry->max), __ldcg(&entry->sum)}; }

  // Statistics and keys of the row's chunks, for all of the block, where there is room for them.
  __device__ void FetchChunks() {
    for (int c = thread_; c < of_.chunks; c += threads_) {
      const Stats<C> stats = Fetch(of_.stats + c);
      shared_.table[c] = stats;
      shared_.keys[c] = MakeKeyOf<In>(stats.max);
    }
    __syncthreads();
  }
  // By one warp.
  __device__ void FoldRow() {
    const Stats<C> stats = IsFlat() ? FoldTable() : FoldGroups();
    double products = 0;
    if (of_.segment.entropy != nullptr) {
      for (int c = lanes_.lane; c < of_.chunks; c += 32) products += ProductsOf(c, stats.max);
      products = LaneSum(products, 32);
    }
    SetRow(stats, products);
  }
  __device__ __forceinline__ Stats<C> FoldTable() const {
    if constexpr (sizeof(C) == 4) {
      if (of_.chunks > 16) return FoldMany<4, false>(shared_.table, of_.chunks, lanes_.lane, of_.scale);
    }
    return FoldFlat(shared_.table, of_.chunks, lanes_.lane, of_.scale);
  }
  __device__ Stats<C> FoldGroups() const {
    RowFold<C> fold;
    const int groups = (of_.chunks + kGroupChunks - 1) / kGroupChunks;
    for (int g = 0; g < groups; ++g) {
      const int c = g * kGroupChunks + lanes_.lane;
      fold.chunk = c < of_.chunks ? Fetch(of_.stats + c) : NoStats<C>();
      fold.EndGroup(g, lanes_.lane, of_.scale);
    }
    return fold.Finish(of_.scale);
  }
  // A chunk's part of the sum of exp(d) * d, its distances taken from the row's maximum.
  __device__ double ProductsOf(int chunk, C max) const {
    const Stats<C> stats = Fetch(of_.stats + chunk);
    const double shift = (static_cast<double>(stats.max) - static_cast<double>(max)) * of_.segment.rows.scale;
    if (!(shift > -700)) return 0;  // nothing of it is left; -inf among them
    return exp(shift) * (__ldcg(of_.products + chunk) + shift * static_cast<double>(stats.sum));
  }

  // Leaves the row's `k` first elements among the candidates, and the order of these. By the searchers.
  __device__ void FindTop(int k) {
    TopShared<In>& top = shared_.top;
    const Key threshold = of_.valid <= kCandidates && of_.valid <= 2 * k ? Key{0} : RowThreshold(k);
    Collect(threshold);
    if (top.count > kCandidates) Apart<&RowSummary::CollectExactly>(of_.row, k, threshold);
    RankCandidates(top);
  }
  // A key that at least k elements reach, in most rows hardly more.
  __device__ __forceinline__ Key RowThreshold(int k) {
    const int chunks = UsedChunks();
    const int most = k + k / 8;
    if (!IsSmall() && IsFlat() && 8 * k <= 7 * chunks) {
      return chunks <= 32 ? WarpThreshold(chunks, k) : KeyThreshold(shared_.keys, chunks, k, most);
    }
    // Where nearly all chunks hold some of the largest, their maxima tell too little.
    if (of_.segment.has_lanes && 4 * 32 * chunks >= 7 * k) {
      return KeyThreshold(of_.lane_maxima, 32 * chunks, k, most);
    }
    return Apart<&RowSummary::ElementThreshold>(of_.row, k, most, Key{0});
  }
  // The k-th largest of the chunks' maxima where they fit into a warp: each warp finds it for itself.
  __device__ __forceinline__ Key WarpThreshold(int chunks, int k) const {
    Key rest = lanes_.lane < chunks ? shared_.keys[lanes_.lane] : Key{0};
    Key threshold = 0;
    for (int reached = 0; reached < k;) {
      threshold = WarpLargest(rest);
      reached += __popc(__ballot_sync(0xffffffffu, rest == threshold));
      if (rest == threshold) rest = 0;
    }
    return threshold;
  }
  __device__ __noinline__ static Key KeyThreshold(const Key* keys, int count, int k, int most) {
    return FindThreshold<In>(TheShared<In>().top, count, k, most, Key{0},
                             [&](std::int64_t i) { return LoadKey(keys + i); });
  }
  __device__ Key ElementThreshold(int k, int most, Key least) {
    return FindThreshold<In>(shared_.top, of_.valid, k, most, least,
                             [&](std::int64_t column) { return ElementKey(column); });
  }
  // Of shared memory, or what other blocks have written: not from the L1.
  __device__ __forceinline__ static Key LoadKey(const Key* key) { return *static_cast<const volatile Key*>(key); }

  // Very many reach the threshold: many are equal, or it is too low.
  __device__ void CollectExactly(int k, Key threshold) {
    TopShared<In>& top = shared_.top;
    const Searchers<In> searchers(top);
    const Key exact = ElementThreshold(k, kCandidates, threshold);
    Collect(exact);
    if (top.count <= kCandidates) return;
    // It is the k-th largest itself.
    Collect(exact + 1);
    if (top.count <= kCandidates) return AddEqual(exact, k - top.count);
    // No more than k are above it, unless the row is being changed: then it has no largest elements.
    searchers.Sync();
    if (searchers.thread() == 0) top.count = 0;
    searchers.Sync();
  }
  // Adds the first `count` of the elements with this key to the candidates.
  __device__ __forceinline__ void AddEqual(Key key, int count) {
    const Searchers<In> searchers(shared_.top);
    int taken = 0;
    for (std::int64_t first = 0; taken < count && first < of_.valid; first += searchers.threads()) {
      const std::int64_t c = first + searchers.thread();
      const bool is_equal = c < of_.valid && ElementKey(c) == key;
      const int reached = taken + searchers.SumUpTo(is_equal ? 1 : 0);
      if (is_equal && reached <= count) AddCandidate(shared_.top, key, c);
      if (searchers.thread() == searchers.threads() - 1) shared_.top.found.reached = reached;
      searchers.Sync();
      taken = shared_.top.found.reached;
    }
    searchers.Sync();
  }

  // Leaves the elements that reach the threshold as candidates; 0: all.
  __device__ __forceinline__ void Collect(Key threshold) {
    TopShared<In>& top = shared_.top;
    const Searchers<In> searchers(top);
    searchers.Sync();  // nobody counts the candidates before
    if (searchers.thread() == 0) top.count = top.place_count = 0;
    searchers.Sync();
    if (threshold == 0 || IsSmall()) {
      for (std::int64_t c = searchers.thread(); c < of_.valid; c += searchers.threads()) {
        const Key key = ElementKey(c);
        if (key >= threshold) AddCandidate(top, key, c);
      }
    } else {
      const bool by_lanes = of_.segment.has_lanes;
      const std::int64_t places = std::int64_t{UsedChunks()} * (by_lanes ? 32 : 1);
      const Key* const keys = by_lanes ? of_.lane_maxima : shared_.keys;
      for (std::int64_t i = searchers.thread(); i < places; i += searchers.threads()) {
        if (LoadKey(keys + i) < threshold) continue;
        const int place = atomicAdd(&top.place_count, 1);
        if (place < kCandidates) top.places[place] = static_cast<int>(i);
      }
      searchers.Sync();
      const int count = top.place_count;
      if (count > kCandidates && searchers.thread() == 0) top.count = count;  // so are the elements
      // A thread has a lane of its own, or a warp shares a chunk.
      const int from = by_lanes ? searchers.thread() : searchers.thread() / 32;
      for (int i = from; i < count && count <= kCandidates; i += by_lanes ? searchers.threads() : searchers.warps()) {
        const int place = top.places[i];
        CollectLane(by_lanes ? place / 32 : place, by_lanes ? place % 32 : lanes_.lane, threshold);
      }
    }
    searchers.Sync();
  }
  // Of the elements that one lane had of a chunk. Vectors are looked at closer where their maximum reaches the
  // threshold, or where they cannot be read whole.
  __device__ __forceinline__ void CollectLane(int chunk, int lane, Key threshold) const {
    const std::int64_t start = of_.ColumnOf(chunk);
    const int columns = of_.Within(start, kChunk);
    const int skip = of_.Skip();
    const int first = lane * kVector - skip;
    const In* const from = of_.input + start + first;
    const bool is_aligned = of_.segment.rows.inner == 1 && Misalignment(from) == 0;
    const auto is_whole = [&](int slot) {
      const int at = first + slot * kStep;
      return is_aligned && at >= 0 && at + kVector <= columns;
    };
    const auto vector = [&](int slot) { return *reinterpret_cast<const uint4*>(from + slot * kStep); };
    const C least = ToCompute(ElementOfKey<In>(threshold));
    uint4 v[kChunkSlots];
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) v[j] = is_whole(j) ? vector(j) : NothingVector<In>();
    unsigned close = 0;
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) {
      if (!is_whole(j) || LaneMaximum<In, 1, true>(&v[j], 0, lanes_) >= least) close |= 1u << j;
    }
    // Where a row misses a boundary, lane 0's first vector begins in the chunk before; its chunk's end is in one more.
    if (skip > 0 && lane == 0) close |= 1u << kChunkSlots;
    for (; close != 0; close &= close - 1) {
      const int slot = __ffs(static_cast<int>(close)) - 1;
      unsigned hits = (1u << kVector) - 1;  // of its places
      if (is_whole(slot)) {
        C x[kVector];
        Unpack<In>(vector(slot), x);
        hits = 0;
#pragma unroll
        for (int e = 0; e < kVector; ++e) hits |= x[e] >= least ? 1u << e : 0;
      }
      for (; hits != 0; hits &= hits - 1) {
        const int c = first + slot * kStep + __ffs(static_cast<int>(hits)) - 1;
        if (c < 0 || c >= columns) continue;
        const Key key = ElementKey(start + c);
        if (key >= threshold) AddCandidate(shared_.top, key, start + c);
      }
    }
  }

  SummaryShared<In>& shared_;
  const SummaryRow<In> of_;
  const Lanes lanes_;
  const int thread_;
  const int threads_;
};

}  // namespace softmax::kernels::cuda
