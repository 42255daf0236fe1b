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
template <typename In>
class RowSummary {
 public:
  using C = ComputeOf<In>;
  using Key = KeyOf<In>;

  __device__ __forceinline__ explicit RowSummary(int row)
      : shared_(TheShared<In>()),
        of_(shared_.tables, shared_.segment, row),
        lanes_{static_cast<int>(threadIdx.x) % 32, 32},
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  // Writes what is asked of the row; by the whole block.
  __device__ __forceinline__ void Run() {
    const auto most = static_cast<int>(min(of_.valid, std::int64_t{of_.segment.top_k}));
    if (!IsSmall() && IsFlat()) FetchChunks();
    // The largest are looked for while the statistics are folded.
    if (warp_ > 0) {
      if (most > 0) Apart<&RowSummary::FindTop>(of_.row, most);
    } else if (IsSmall()) {
      Apart<&RowSummary::ReduceSmallRow>(of_.row);
    } else {
      Apart<&RowSummary::FoldRow>(of_.row);
    }
    __syncthreads();
    const RowResults<In> results(of_.segment, shared_.output_type, of_.row, of_.input, of_.valid, shared_.row,
                                 of_.scale);
    const bool has_nan = results.is_nan() && of_.segment.log_sum_exp != nullptr && HasNan();
    if (of_.segment.values_at != nullptr) {
      for (std::int64_t i = threadIdx.x; i < of_.segment.at; i += blockDim.x) results.WriteAt(i);
    }
    // By another warp than those that have the top to write.
    if (threadIdx.x == blockDim.x - 1) results.WriteNumbers(shared_.products, has_nan);
    if (of_.segment.top_values != nullptr) {
      const int found = results.is_nan() ? 0 : most;
      const TopShared<In>& top = shared_.top;
      for (int i = static_cast<int>(threadIdx.x); found > 0 && i < top.count; i += static_cast<int>(blockDim.x)) {
        const int rank = top.order.ranks[i];
        if (rank < found) results.WriteTop(rank, Ranked<In>{top.keys[i], top.indices[i]});
      }
      for (int i = found + static_cast<int>(threadIdx.x); i < of_.segment.top_k; i += static_cast<int>(blockDim.x)) {
        results.WriteNoTop(i);
      }
    }
    __syncthreads();  // the next row uses the same shared memory
  }

 private:
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kVector = Element<In>::kVector;

  template <auto kStep, typename... Arguments>
  __device__ __noinline__ static auto Apart(int row, Arguments... arguments) {
    return (RowSummary(row).*kStep)(arguments...);
  }

  __device__ __forceinline__ bool IsSmall() const { return of_.segment.cols <= Element<In>::kSmall; }
  // Whether there is room in shared memory for the chunks' statistics.
  __device__ __forceinline__ bool IsFlat() const { return of_.chunks <= kFlatChunks; }

  // By one warp, of which the first lanes hold the row as they would a small contiguous one.
  __device__ void ReduceSmallRow() {
    constexpr int kSlots = SmallSlots(sizeof(In));
    const int count = static_cast<int>(of_.segment.lanes);
    const Lanes lanes{lanes_.lane & (count - 1), count};
    const int n = lanes_.lane < count ? static_cast<int>(of_.valid) : 0;
    uint4 v[kSlots];
    of_.LoadVectors(0, n, lanes, v);
    const RowStats<C> stats = FirstStats<In, kSlots, true>(of_.segment.log != 0, v, n, n, lanes, of_.scale);
    double products = 0;
    if (of_.segment.entropy != nullptr) {
      const C max = __shfl_sync(0xffffffffu, stats.max, 0);
      for (std::int64_t c = lanes_.lane; c < of_.valid; c += 32) {
        products += EntropyTerm(ToCompute(of_.input[c * of_.segment.inner]), max, of_.segment.scale);
      }
      products = LaneSum(products, 32);
    }
    if (lanes_.lane == 0) {
      shared_.row = stats;
      shared_.products = products;
    }
  }

  // Other blocks have written it: not from the L1.
  __device__ static Stats<C> Fetch(const Stats<C>* entry) { return {__ldcg(&entry->max), __ldcg(&entry->sum)}; }

  // Statistics and keys of the row's chunks, for all of the block, where there is room for them.
  __device__ void FetchChunks() {
    for (int c = static_cast<int>(threadIdx.x); c < of_.chunks; c += static_cast<int>(blockDim.x)) {
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
    if (lanes_.lane == 0) {
      shared_.row = stats;
      shared_.products = products;
    }
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
    const double shift = (static_cast<double>(stats.max) - static_cast<double>(max)) * of_.segment.scale;
    if (!(shift > -700)) return 0;  // nothing of it is left; -inf among them
    return exp(shift) * (__ldcg(of_.products + chunk) + shift * static_cast<double>(stats.sum));
  }

  // By the whole block, of a row that comes out all NaN.
  __device__ bool HasNan() const {
    bool found = false;
    for (std::int64_t c = threadIdx.x; c < of_.valid; c += blockDim.x) {
      const C x = ToCompute(of_.input[c * of_.segment.inner]);
      found = found || x != x;
    }
    return __syncthreads_or(found ? 1 : 0) != 0;
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
    if (!IsSmall() && 8 * k <= 7 * chunks) {
      if (chunks <= 32) return FewChunksThreshold(chunks, k);
      if (!IsFlat()) return Apart<&RowSummary::ChunkThreshold>(of_.row, k, most);
      return KeyThreshold(shared_.keys, chunks, k, most);
    }
    // Where nearly all chunks hold some of the largest, their maxima tell too little.
    if (of_.segment.has_lanes != 0 && 4 * 32 * chunks >= 7 * k) {
      return KeyThreshold(of_.lane_maxima, 32 * chunks, k, most);
    }
    return Apart<&RowSummary::ElementThreshold>(of_.row, k, most, Key{0});
  }
  // The k-th largest of the chunks' maxima where they fit into a warp: each warp finds it for itself.
  __device__ __forceinline__ Key FewChunksThreshold(int chunks, int k) const {
    Key rest = lanes_.lane < chunks ? KeyAt(lanes_.lane) : Key{0};
    Key threshold = 0;
    for (int reached = 0; reached < k;) {
      threshold = WarpLargest(rest);
      reached += __popc(__ballot_sync(0xffffffffu, rest == threshold));
      if (rest == threshold) rest = 0;
    }
    return threshold;
  }
  // Each of these is a function of its own, so that those that are not needed are not fetched: the time of few rows is
  // that of bringing in the instructions.
  __device__ __noinline__ static Key KeyThreshold(const Key* keys, int count, int k, int most) {
    return FindThreshold<In>(TheShared<In>().top, count, k, most, Key{0},
                             [&](std::int64_t i) { return LoadKey(keys + i); });
  }
  __device__ Key ChunkThreshold(int k, int most) {
    return FindThreshold<In>(shared_.top, UsedChunks(), k, most, Key{0}, [&](std::int64_t i) { return KeyAt(i); });
  }
  __device__ Key ElementThreshold(int k, int most, Key least) {
    return FindThreshold<In>(shared_.top, of_.valid, k, most, least,
                             [&](std::int64_t column) { return ElementKey(column); });
  }
  // Very many reach the threshold: many are equal, or it is too low.
  __device__ void CollectExactly(int k, Key threshold) {
    TopShared<In>& top = shared_.top;
    const Key exact = ElementThreshold(k, kCandidates, threshold);
    Collect(exact);
    if (top.count <= kCandidates) return;
    // It is the k-th largest itself.
    Collect(exact + 1);
    AddEqual(exact, k - top.count);
  }
  // Chunks with valid elements.
  __device__ __forceinline__ int UsedChunks() const { return static_cast<int>((of_.valid + kChunk - 1) / kChunk); }
  __device__ __forceinline__ Key KeyAt(std::int64_t chunk) const {
    return IsFlat() ? shared_.keys[chunk] : MakeKeyOf<In>(__ldcg(&of_.stats[chunk].max));
  }
  // Of shared memory, or what other blocks have written: not from the L1.
  __device__ __forceinline__ static Key LoadKey(const Key* key) { return *static_cast<const volatile Key*>(key); }
  __device__ __forceinline__ Key ElementKey(std::int64_t column) const {
    return MakeKey<In>(of_.input[column * of_.segment.inner]);
  }

  // Leaves the elements that reach the threshold as candidates; 0: all.
  __device__ __forceinline__ void Collect(Key threshold) {
    TopShared<In>& top = shared_.top;
    const Searchers<In> searchers(top);
    searchers.Sync();  // nobody counts the candidates before
    if (searchers.thread() == 0) {
      top.count = 0;
      top.place_count = 0;
    }
    searchers.Sync();
    if (threshold == 0 || IsSmall()) {
      for (std::int64_t c = searchers.thread(); c < of_.valid; c += searchers.threads()) {
        const Key key = ElementKey(c);
        if (key >= threshold) AddCandidate(top, key, c);
      }
    } else {
      const bool by_lanes = of_.segment.has_lanes != 0;
      const std::int64_t places = by_lanes ? UsedChunks() * 32 : UsedChunks();
      const Key* const keys = by_lanes ? of_.lane_maxima : shared_.keys;
      for (std::int64_t i = searchers.thread(); i < places; i += searchers.threads()) {
        if ((by_lanes || IsFlat() ? LoadKey(keys + i) : KeyAt(i)) < threshold) continue;
        const int place = atomicAdd(&top.place_count, 1);
        if (place < kCandidates) top.places[place] = static_cast<int>(i);
      }
      searchers.Sync();
      const int count = top.place_count;
      if (count > kCandidates) {  // so are the elements
        if (searchers.thread() == 0) top.count = count;
      } else if (by_lanes) {
        for (int i = searchers.thread(); i < count; i += searchers.threads()) {
          CollectLane(top.places[i] / 32, top.places[i] % 32, threshold);
        }
      } else {
        for (int i = searchers.thread() / 32; i < count; i += searchers.warps()) {
          CollectLane(top.places[i], lanes_.lane, threshold);
        }
      }
    }
    searchers.Sync();
  }
  // Of the elements that one lane had of a chunk.
  __device__ __forceinline__ void CollectLane(int chunk, int lane, Key threshold) const {
    constexpr int kStep = 32 * kVector;
    const std::int64_t start = of_.ColumnOf(chunk);
    const int columns = of_.Within(start, kChunk);
    const int skip = of_.Skip();
    const int first = lane * kVector - skip;
    const bool is_aligned = of_.IsAligned(start + first);
    const int lowest = chunk > 0 ? -skip : 0;  // the place of the first column that may be read
    const auto is_whole = [&](int at) { return is_aligned && at >= lowest && at + kVector <= columns; };
    const C least = ToCompute(ElementOfKey<In>(threshold));
    // The vectors that are looked at closer: their maximum reaches the threshold, or they cannot be read whole.
    unsigned close = 0;
    uint4 v[kChunkSlots];
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) {
      const int at = first + j * kStep;
      v[j] = NothingVector<In>();
      if (is_whole(at)) {
        v[j] = *reinterpret_cast<const uint4*>(of_.input + start + at);
      } else {
        close |= 1u << j;
      }
    }
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) {
      if (LaneMaximum<In, 1, true>(&v[j], 0, lanes_) >= least) close |= 1u << j;
    }
    // Where a row does not begin on a boundary, lane 0's first vector begins in the chunk before; the end of its chunk
    // is in one more.
    if (skip > 0 && lane == 0) close |= 1u << kChunkSlots;
    for (; close != 0; close &= close - 1) {
      const int slot = __ffs(static_cast<int>(close)) - 1;
      const int at = first + slot * kStep;
      unsigned hits = (1u << kVector) - 1;  // of its places
      if (is_whole(at)) {
        uint4 chosen = v[0];
#pragma unroll
        for (int j = 1; j < kChunkSlots; ++j) {
          if (slot == j) chosen = v[j];
        }
        C x[kVector];
        Unpack<In>(chosen, x);
        hits = 0;
#pragma unroll
        for (int e = 0; e < kVector; ++e) hits |= x[e] >= least ? 1u << e : 0;
      }
      for (; hits != 0; hits &= hits - 1) {
        const int c = at + __ffs(static_cast<int>(hits)) - 1;
        if (c < 0 || c >= columns) continue;
        const Key key = ElementKey(start + c);
        if (key >= threshold) AddCandidate(shared_.top, key, start + c);
      }
    }
  }
  // Adds the first `count` of the elements with this key to the candidates.
  __device__ __forceinline__ void AddEqual(Key key, int count) {
    const Searchers<In> searchers(shared_.top);
    constexpr int kMany = 8;  // on their way at a time
    int taken = 0;
    for (std::int64_t first = 0; taken < count && first < of_.valid; first += kMany * searchers.threads()) {
      bool is_equal[kMany];
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        const std::int64_t c = first + i * searchers.threads() + searchers.thread();
        is_equal[i] = c < of_.valid && ElementKey(c) == key;
      }
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        const int reached = taken + searchers.SumUpTo(is_equal[i] ? 1 : 0);
        if (is_equal[i] && reached <= count) {
          AddCandidate(shared_.top, key, first + i * searchers.threads() + searchers.thread());
        }
        if (searchers.thread() == searchers.threads() - 1) shared_.top.found.reached = reached;
        searchers.Sync();
        taken = shared_.top.found.reached;
      }
    }
    searchers.Sync();
  }
  SummaryShared<In>& shared_;
  const SummaryRow<In> of_;
  const Lanes lanes_;
  const int warp_;
};

}  // namespace softmax::kernels::cuda
