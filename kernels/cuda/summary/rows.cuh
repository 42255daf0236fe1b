#pragma once

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
  int chunks[kFlatChunks];  // numbers of those that may hold some of the largest
  int chunk_count;
  KeyOf<In> threshold;  // which all of the largest reach
};

// Its state takes many registers, so that the larger steps are functions of their own (Apart), which make it anew.
template <typename In>
class RowSummary {
 public:
  using C = ComputeOf<In>;
  using Key = KeyOf<In>;

  __device__ __forceinline__ RowSummary(const SummaryParams& params, SummaryShared<In>& shared, int row)
      : params_(params),
        shared_(shared),
        of_(params, shared.segment, row),
        lanes_{static_cast<int>(threadIdx.x) % 32, 32},
        warp_(static_cast<int>(threadIdx.x) / 32) {}

  // Writes what is asked of the row; by the whole block.
  __device__ __forceinline__ void Run() {
    const bool is_small = IsSmall();
    const auto most = static_cast<int>(min(of_.valid, std::int64_t{of_.segment.top_k}));
    // The largest are looked for while the statistics are folded.
    const bool is_early = !is_small && IsFlat() && of_.segment.has_lanes == 0 && most > 0;
    if (threadIdx.x == 0) shared_.top.count = 0;
    if (is_small) {
      Apart<&RowSummary::ReduceSmallRow>(params_, shared_, of_.row);
    } else {
      if (IsFlat()) FetchChunks();
      if (warp_ == 0) {
        Apart<&RowSummary::FoldRow>(params_, shared_, of_.row);
      } else if (is_early) {
        Apart<&RowSummary::FindEarly>(params_, shared_, of_.row, most);
      }
    }
    __syncthreads();
    const RowResults<In> results(of_.segment, params_.output_type, of_.row, of_.input, of_.valid, shared_.row,
                                 of_.scale);
    const bool has_nan = results.is_nan() && of_.segment.log_sum_exp != nullptr && HasNan();
    if (of_.segment.values_at != nullptr) {
      for (std::int64_t i = threadIdx.x; i < of_.segment.at; i += kBlockThreads) results.WriteAt(i);
    }
    if (of_.segment.top_values != nullptr) {
      const int found = results.is_nan() ? 0 : most;
      if (found > 0) {
        if (!is_early) Apart<&RowSummary::FindTop>(params_, shared_, of_.row, found);
        if (shared_.top.count > kCandidates) Apart<&RowSummary::CollectExactly>(params_, shared_, of_.row, found);
      }
      // By another warp than those that have the top to write.
      if (threadIdx.x == kBlockThreads - 1) results.WriteNumbers(shared_.products, has_nan);
      if (found > 0) {
        WriteInOrder(shared_.top, found, [&](int i, const Ranked<In>& element) { results.WriteTop(i, element); });
      }
      for (int i = found + static_cast<int>(threadIdx.x); i < of_.segment.top_k; i += kBlockThreads) {
        results.WriteNoTop(i);
      }
    } else if (threadIdx.x == 0) {
      results.WriteNumbers(shared_.products, has_nan);
    }
    __syncthreads();  // the next row uses the same shared memory
  }

 private:
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kVector = Element<In>::kVector;

  template <auto kStep, typename... Arguments>
  __device__ __noinline__ static void Apart(const SummaryParams& params, SummaryShared<In>& shared, int row,
                                            Arguments... arguments) {
    (RowSummary(params, shared, row).*kStep)(arguments...);
  }

  __device__ __forceinline__ bool IsSmall() const { return of_.segment.cols <= Element<In>::kSmall; }
  // Whether there is room in shared memory for the chunks' statistics.
  __device__ __forceinline__ bool IsFlat() const { return of_.chunks <= kFlatChunks; }

  // The first lanes of the first warp hold the row, as they would a small contiguous one.
  __device__ void ReduceSmallRow() {
    if (warp_ > 0) return;
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
    for (int c = static_cast<int>(threadIdx.x); c < of_.chunks; c += kBlockThreads) {
      const Stats<C> stats = Fetch(of_.stats + c);
      shared_.table[c] = stats;
      shared_.keys[c] = MakeKeyOf<In>(stats.max);
    }
    __syncthreads();
  }
  // By one warp.
  __device__ void FoldRow() {
    const Stats<C> stats = IsFlat() ? FoldFlat(shared_.table, of_.chunks, lanes_.lane, of_.scale) : FoldGroups();
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
    for (std::int64_t c = threadIdx.x; c < of_.valid; c += kBlockThreads) {
      const C x = ToCompute(of_.input[c * of_.segment.inner]);
      found = found || x != x;
    }
    return __syncthreads_or(found ? 1 : 0) != 0;
  }

  // Leaves the row's `k` first elements, and perhaps others, among the candidates.
  __device__ void FindTop(int k) {
    const bool is_small = IsSmall();
    Key threshold = 0;
    if (!is_small && of_.valid > kCandidates / 2) threshold = RowThreshold(k);
    if (threadIdx.x == 0) {
      shared_.threshold = threshold;
      shared_.top.count = 0;
    }
    __syncthreads();
    if (of_.segment.has_lanes != 0 && of_.segment.wide != 0 && of_.segment.inner == 1 && threshold != 0) {
      CollectFromLanes(threshold);
    } else {
      Visit(threshold, is_small, AddTo(shared_.top));
    }
    __syncthreads();
  }
  // Adds the elements that reach the threshold, by the lanes whose maxima say that they have some.
  __device__ __forceinline__ void CollectFromLanes(Key threshold) {
    constexpr int kMany = 4;  // chunks whose maxima are on their way at a time
    for (int first = warp_ * kMany; first < of_.chunks; first += kBlockWarps * kMany) {
      Key keys[kMany];
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        keys[i] = first + i < of_.chunks ? __ldcg(of_.lane_maxima + (first + i) * 32 + lanes_.lane) : Key{0};
      }
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        if (keys[i] < threshold) continue;
        uint4 v[kChunkSlots];
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) {
          const std::int64_t column = of_.ColumnOf(first + i) + (j * 32 + lanes_.lane) * kVector;
          v[j] = NothingVector<In>();
          if (column + kVector <= of_.valid) {
            v[j] = *reinterpret_cast<const uint4*>(of_.input + column);
          } else if (column < of_.valid) {
            v[j] = LoadRange(of_.input + column, 0, static_cast<int>(of_.valid - column));
          }
        }
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) {
          const std::int64_t column = of_.ColumnOf(first + i) + (j * 32 + lanes_.lane) * kVector;
          In x[kVector];
          memcpy(x, &v[j], sizeof(x));
#pragma unroll
          for (int e = 0; e < kVector; ++e) {
            const Key key = MakeKey<In>(x[e]);
            if (key >= threshold && column + e < of_.valid) AddCandidate(shared_.top, key, column + e);
          }
        }
      }
    }
  }
  // The same by all warps but the first, of a row whose chunks' keys lie in shared memory.
  __device__ void FindEarly(int k) {
    if (warp_ == 1) ChooseChunks(k);
    asm volatile("bar.sync 1, %0;" ::"n"(kBlockThreads - 32) : "memory");
    CollectFromChunks();
  }
  // By one warp: which chunks may hold some of the row's k first elements, and a key that all of these reach.
  __device__ void ChooseChunks(int k) {
    constexpr int kEach = kFlatChunks / 32;
    Key keys[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int c = i * 32 + lanes_.lane;
      keys[i] = c < of_.chunks ? shared_.keys[c] : Key{0};
    }
    Key low = 0;  // that of no element
    int bit = -1;
    if (of_.chunks > k) {
      // What all keys begin with need not be looked for.
      Key most = 0;
      Key least = ~Key{0};
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        most = keys[i] > most ? keys[i] : most;
        if (i * 32 + lanes_.lane < of_.chunks) least = keys[i] < least ? keys[i] : least;
      }
      most = WarpLargest(most);
      least = static_cast<Key>(~WarpLargest(static_cast<Key>(~least)));
      bit = static_cast<int>(sizeof(Key)) * 8 - 1 - LeadingZeros(most ^ least);
      low = bit < 0 ? most : static_cast<Key>(most >> bit >> 1 << bit << 1);
    }
    for (; bit >= 0; --bit) {
      const Key middle = low | static_cast<Key>(Key{1} << bit);
      int reached = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (i * 32 < of_.chunks) reached += keys[i] >= middle ? 1 : 0;
      }
      reached = WarpSum(reached);
      if (reached >= k) low = middle;
      if (reached >= k && reached <= k + k / 4) break;
    }
    int count = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int c = i * 32 + lanes_.lane;
      const bool is_chosen = c < of_.chunks && keys[i] >= low;
      const unsigned who = __ballot_sync(0xffffffffu, is_chosen);
      if (is_chosen) shared_.chunks[count + __popc(who & ((1u << lanes_.lane) - 1))] = c;
      count += __popc(who);
    }
    if (lanes_.lane == 0) {
      shared_.chunk_count = count;
      shared_.threshold = low;
    }
  }
  // A key that at least k elements reach, in most rows hardly more.
  __device__ Key RowThreshold(int k) {
    const int maxima = of_.segment.has_lanes != 0 ? of_.chunks * 32 : of_.chunks;
    if (maxima < 2 * k) {
      // So few that too many elements may reach the k-th of them: by the elements themselves.
      return Threshold(shared_.top, k, k + k / 4, [&](auto use) {
        VisitAll(Key{0}, [&](bool is_there, Key key, std::int64_t) { use(is_there, key); });
      });
    }
    return Threshold(shared_.top, k, k + k / 4, [&](auto use) {
      constexpr int kMany = 4;  // on their way at a time
      for (int first = 0; first < maxima; first += kMany * kBlockThreads) {
        Key keys[kMany];
#pragma unroll
        for (int i = 0; i < kMany; ++i) {
          const int at = first + i * kBlockThreads + static_cast<int>(threadIdx.x);
          if (at < maxima) keys[i] = of_.segment.has_lanes != 0 ? __ldcg(of_.lane_maxima + at) : KeyAt(at);
        }
#pragma unroll
        for (int i = 0; i < kMany; ++i) {
          const int at = first + i * kBlockThreads + static_cast<int>(threadIdx.x);
          use(at < maxima, at < maxima ? keys[i] : Key{0});
        }
      }
    });
  }
  __device__ __forceinline__ Key KeyAt(int chunk) const {
    return of_.chunks <= kFlatChunks ? shared_.keys[chunk] : MakeKeyOf<In>(__ldcg(&of_.stats[chunk].max));
  }

  // Calls visit(is_there, key, column) with the elements whose keys reach the threshold, in any order, by the whole
  // block; by whole warps, with is_there false where there is none.
  template <typename F>
  __device__ __forceinline__ void Visit(Key threshold, bool is_small, F visit) {
    if (is_small || threshold == 0) {
      VisitAll(threshold, visit);
      return;
    }
    for (int begin = 0; begin < of_.chunks; begin += kFlatChunks) {
      const int end = min(begin + kFlatChunks, of_.chunks);
      __syncthreads();
      if (threadIdx.x == 0) shared_.chunk_count = 0;
      __syncthreads();
      for (int c = begin + static_cast<int>(threadIdx.x); c < end; c += kBlockThreads) {
        if (KeyAt(c) >= threshold) shared_.chunks[atomicAdd(&shared_.chunk_count, 1)] = c;
      }
      __syncthreads();
      VisitChunks(shared_.chunk_count, threshold, visit);
    }
  }
  // All of the row's elements, column by column.
  template <typename F>
  __device__ __forceinline__ void VisitAll(Key threshold, F visit) const {
    constexpr int kMany = 8;  // on their way at a time
    for (std::int64_t c = threadIdx.x; c - threadIdx.x < of_.valid; c += kMany * kBlockThreads) {
      In x[kMany];
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        if (c + i * kBlockThreads < of_.valid) x[i] = of_.input[(c + i * kBlockThreads) * of_.segment.inner];
      }
#pragma unroll
      for (int i = 0; i < kMany; ++i) {
        const bool is_valid = c + i * kBlockThreads < of_.valid;
        const Key key = is_valid ? MakeKey<In>(x[i]) : Key{0};
        visit(is_valid && key >= threshold, key, c + i * kBlockThreads);
      }
    }
  }
  // Those of the first `count` of shared_.chunks.
  template <typename F>
  __device__ __forceinline__ void VisitChunks(int count, Key threshold, F visit) const {
    for (int i = warp_; i < count; i += kBlockWarps) {
      const std::int64_t column = of_.ColumnOf(shared_.chunks[i]);
      const int n = of_.Within(column, kChunk);
      uint4 v[kChunkSlots];
      of_.LoadVectors(column, n, lanes_, v);
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) {
        In x[kVector];
        memcpy(x, &v[j], sizeof(x));
        const int at = (j * 32 + lanes_.lane) * kVector;
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const Key key = MakeKey<In>(x[e]);
          visit(at + e < n && key >= threshold, key, column + at + e);
        }
      }
    }
  }
  // Adds the elements of shared_.chunks that reach the threshold to the candidates, by all warps but the first.
  __device__ __forceinline__ void CollectFromChunks() {
    constexpr int kStep = kBlockWarps - 1;
    const int count = shared_.chunk_count;
    const C least = shared_.threshold == 0 ? -Infinity<C>() : ToCompute(ElementOfKey<In>(shared_.threshold));
    for (int i = warp_ - 1; i < count; i += 2 * kStep) {
      const std::int64_t first = of_.ColumnOf(shared_.chunks[i]);
      if (i + kStep < count && of_.segment.wide != 0 && of_.segment.inner == 1) {
        const std::int64_t second = of_.ColumnOf(shared_.chunks[i + kStep]);
        if (of_.Within(first, kChunk) == kChunk && of_.Within(second, kChunk) == kChunk) {
          // The usual case: more on its way at a time.
          uint4 v[2][kChunkSlots];
#pragma unroll
          for (int j = 0; j < kChunkSlots; ++j) {
            v[0][j] = reinterpret_cast<const uint4*>(of_.input + first)[j * 32 + lanes_.lane];
            v[1][j] = reinterpret_cast<const uint4*>(of_.input + second)[j * 32 + lanes_.lane];
          }
          Collect(v[0], first, kChunk, least);
          Collect(v[1], second, kChunk, least);
          continue;
        }
      }
      for (int at = i; at < count && at <= i + kStep; at += kStep) {
        const std::int64_t column = of_.ColumnOf(shared_.chunks[at]);
        const int n = of_.Within(column, kChunk);
        uint4 v[kChunkSlots];
        of_.LoadVectors(column, n, lanes_, v);
        Collect(v, column, n, least);
      }
    }
  }
  __device__ __forceinline__ void Collect(const uint4 (&v)[kChunkSlots], std::int64_t column, int n, C least) {
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) {
      C x[kVector];
      Unpack<In>(v[j], x);
      C most = x[0];
#pragma unroll
      for (int e = 1; e < kVector; ++e) most = Larger(x[e], most);
      if (!(most >= least)) continue;
      const int at = (j * 32 + lanes_.lane) * kVector;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (at + e < n && x[e] >= least) AddCandidate(shared_.top, MakeKeyOf<In>(x[e]), column + at + e);
      }
    }
  }
  __device__ __forceinline__ static auto AddTo(TopShared<In>& top) {
    return [&top](bool is_there, Key key, std::int64_t column) {
      if (is_there) AddCandidate(top, key, column);
    };
  }

  // Too many reach the threshold: digit by digit, of the key and then of the index, those are found that are not among
  // the k first. The row is read once for each digit, from the L2.
  __device__ void CollectExactly(int k) {
    const bool is_small = IsSmall();
    const Key threshold = shared_.threshold;
    TopShared<In>& top = shared_.top;
    Key key_prefix = 0;
    std::uint32_t index_prefix = 0;  // of ~index
    int left = k;                    // to be found among those with the prefix
    bool done = false;
    for (int digit = kKeyBits<In> / 8 + 3; digit >= 0 && !done; --digit) {
      const bool of_key = digit >= 4;
      const int shift = of_key ? (digit - 4) * 8 : digit * 8;
      int* const counts = ClearDigits(top);
      Visit(threshold, is_small, [&](bool is_there, Key key, std::int64_t column) {
        const auto turned = ~static_cast<std::uint32_t>(column);
        bool is_counted = is_there;
        int mine = 0;
        if (of_key) {
          is_counted = is_counted && HasPrefix(key, key_prefix, shift + 8);
          mine = static_cast<int>(key >> shift) & 255;
        } else {
          is_counted = is_counted && key == key_prefix && HasPrefix(turned, index_prefix, shift + 8);
          mine = static_cast<int>(turned >> shift) & 255;
        }
        CountInWarp(counts, is_counted, mine);
      });
      __syncthreads();
      const FoundDigit found = FindDigit(counts, left);
      done = found.above + found.count == left;
      left -= found.above;
      if (of_key) {
        key_prefix |= static_cast<Key>(static_cast<Key>(found.digit) << shift);
      } else {
        index_prefix |= static_cast<std::uint32_t>(found.digit) << shift;
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) top.count = 0;
    __syncthreads();
    Visit(threshold, is_small, [&](bool is_there, Key key, std::int64_t column) {
      const bool is_found =
          key > key_prefix || (key == key_prefix && ~static_cast<std::uint32_t>(column) >= index_prefix);
      if (is_there && is_found) AddCandidate(top, key, column);
    });
    __syncthreads();
  }
  const SummaryParams& params_;
  SummaryShared<In>& shared_;
  const SummaryRow<In> of_;
  const Lanes lanes_;
  const int warp_;
};

}  // namespace softmax::kernels::cuda
