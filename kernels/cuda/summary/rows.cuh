#pragma once

#include "kernels/cuda/core/row_part.cuh"
#include "kernels/cuda/summary/results.cuh"
#include "kernels/cuda/summary/top.cuh"

// Summaries of rows that blocks take in parts (summary/summary.h): wide ones, of another axis, small ones with a large
// top.
namespace softmax::kernels::cuda {

template <typename In>
struct SummaryShared {
  using C = ComputeOf<In>;
  TopShared<In> top;
  Stats<C> table[kFlatChunks];
  KeyOf<In> keys[kFlatChunks];  // of the chunks' maxima
  RowStats<C> row;
  double products;
  int is_last;
  int chunks[kFlatChunks];  // numbers of those that may hold some of the largest
  int chunk_count;
};

template <typename In>
class SummaryRows {
 public:
  using C = ComputeOf<In>;
  using Key = KeyOf<In>;

  __device__ SummaryRows(const SummaryParams& params, const DeviceSummary& segment, const Scale<C>& scale,
                         SummaryShared<In>& shared)
      : params_(params),
        segment_(segment),
        scale_(scale),
        shared_(shared),
        lanes_{static_cast<int>(threadIdx.x) % 32, 32},
        warp_(static_cast<int>(threadIdx.x) / 32),
        chunks_(static_cast<int>((segment.cols + kChunk - 1) / kChunk)) {}

  __device__ void Run(std::int64_t item) {
    const std::int64_t row = item / segment_.parts;
    const int part = static_cast<int>(item % segment_.parts);
    row_ = row;
    valid_ = ValidLength(segment_, row);
    input_ =
        static_cast<const In*>(segment_.input) + row / segment_.inner * segment_.input_stride + row % segment_.inner;
    if (segment_.cols <= Element<In>::kSmall) {
      ReduceSmallRow();
      FinishRow(true);
      return;
    }
    unsigned char* const table =
        segment_.first_counter < 0
            ? params_.block_tables + blockIdx.x * params_.block_table_bytes
            : params_.row_tables + segment_.tables + row * SummaryTableBytes(chunks_, sizeof(C), segment_.has_lanes);
    stats_ = reinterpret_cast<Stats<C>*>(table);
    products_ = reinterpret_cast<double*>(stats_ + chunks_);
    lane_maxima_ = reinterpret_cast<Key*>(products_ + chunks_);
    const int begin = part * static_cast<int>(segment_.part_chunks);
    const int end = min(begin + static_cast<int>(segment_.part_chunks), chunks_);
    // The elements' places in the sum of products are by column, which those of rotated vectors are not.
    const bool is_plain = segment_.inner == 1 && segment_.entropy == nullptr && IsFast(scale_) &&
                          !(segment_.log != 0 && valid_ <= kPreciseColumns);
    Key* const lane_maxima = segment_.has_lanes != 0 ? lane_maxima_ : nullptr;
    if (!is_plain) {
      ReduceAnyChunks(begin, end);
    } else if (segment_.wide != 0) {
      ReducePlainChunks<false>(input_, valid_, begin + warp_, end, stats_, lane_maxima, lanes_, scale_);
    } else {
      ReducePlainChunks<true>(input_, valid_, begin + warp_, end, stats_, lane_maxima, lanes_, scale_);
    }
    if (!IsLastOfRow()) return;
    FoldRow();
    FinishRow(false);
  }

 private:
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kVector = Element<In>::kVector;

  __device__ __forceinline__ std::int64_t ColumnOf(int chunk) const { return std::int64_t{chunk} * kChunk; }
  // How many of the columns from `column` on, `most` at most, are valid.
  __device__ __forceinline__ int Within(std::int64_t column, int most) const {
    const std::int64_t n = valid_ - column;
    return n <= 0 ? 0 : n < most ? static_cast<int>(n) : most;
  }

  // One row of another axis, or of contiguous elements, as a group's vectors.
  template <int kSlots>
  __device__ __forceinline__ void LoadVectors(std::int64_t column, int n, Lanes lanes, uint4 (&v)[kSlots]) const {
    if (segment_.inner == 1) {
      const std::int64_t rest = valid_ - column - n;
      LoadPart(input_ + column, n, Around{column > 0, rest >= kVector}, segment_.wide != 0, lanes, v);
      return;
    }
#pragma unroll
    for (int j = 0; j < kSlots; ++j) {
      In x[kVector];
      v[j] = NothingVector<In>();
      memcpy(x, &v[j], sizeof(x));
      const int at = (j * lanes.count + lanes.lane) * kVector;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (at + e < n) x[e] = input_[(column + at + e) * segment_.inner];
      }
      memcpy(&v[j], x, sizeof(x));
    }
  }

  // The first lanes of the first warp hold the row, as they would a small contiguous one.
  __device__ void ReduceSmallRow() {
    if (warp_ > 0) return;
    constexpr int kSlots = SmallSlots(sizeof(In));
    const int count = static_cast<int>(segment_.lanes);
    const Lanes lanes{lanes_.lane & (count - 1), count};
    const int n = lanes_.lane < count ? static_cast<int>(valid_) : 0;
    uint4 v[kSlots];
    LoadVectors(0, n, lanes, v);
    const RowStats<C> stats = FirstStats<In, kSlots, true>(segment_.log != 0, v, n, n, lanes, scale_);
    double products = 0;
    if (segment_.entropy != nullptr) {
      const C max = __shfl_sync(0xffffffffu, stats.max, 0);
      for (std::int64_t c = lanes_.lane; c < valid_; c += 32) {
        products += EntropyTerm(ToCompute(input_[c * segment_.inner]), max, segment_.scale);
      }
      products = LaneSum(products, 32);
    }
    if (lanes_.lane == 0) {
      shared_.row = stats;
      shared_.products = products;
    }
  }

  // A warp's chunks: `first` and every kBlockWarps-th from there. Its arguments are copies, which lie in registers.
  template <bool kSkew>
  __device__ __forceinline__ static void ReducePlainChunks(const In* input, std::int64_t valid, int first, int end,
                                                           Stats<C>* stats, Key* lane_maxima, Lanes lanes,
                                                           const Scale<C>& scale) {
    for (int chunk = first; chunk < end; chunk += kBlockWarps) {
      const std::int64_t column = std::int64_t{chunk} * kChunk;
      RowPart<In, kChunkSlots, kSkew> part;
      part.Load(part.PlaceOf(input + column, valid - column, Around{column > 0, false}, lanes), lanes);
      const Stats<C> mine = part.template ChunkStats<kChunkSlots>(0, lanes, scale);
      if (lanes.lane == 0) stats[chunk] = mine;
      if (lane_maxima != nullptr) {
        uint4 v[kChunkSlots];
        part.template Vectors<kChunkSlots>(0, v);
        lane_maxima[chunk * 32 + lanes.lane] = MakeKeyOf<In>(LaneMaximum<In, kChunkSlots, true>(v, 0, lanes));
      }
    }
  }
  // The same for all other rows.
  __device__ __noinline__ void ReduceAnyChunks(int begin, int end) {
    const bool is_precise = segment_.log != 0 && valid_ <= kPreciseColumns;
    for (int chunk = begin + warp_; chunk < end; chunk += kBlockWarps) {
      const std::int64_t column = ColumnOf(chunk);
      const int n = Within(column, kChunk);
      uint4 v[kChunkSlots];
      LoadVectors(column, n, lanes_, v);
      const Stats<C> stats = FirstStats<In, kChunkSlots, false>(
          segment_.log != 0, v, n, column == 0 && is_precise ? valid_ : kManyColumns, lanes_, scale_);
      if (lanes_.lane == 0) stats_[chunk] = stats;
      if (segment_.entropy != nullptr) {
        const double products = Products(v, n, stats.max);
        if (lanes_.lane == 0) products_[chunk] = products;
      }
      if (segment_.has_lanes != 0) {
        lane_maxima_[chunk * 32 + lanes_.lane] = MakeKeyOf<In>(LaneMaximum<In, kChunkSlots, false>(v, n, lanes_));
      }
    }
  }
  __device__ double Products(const uint4 (&v)[kChunkSlots], int n, C max) const {
    double sum = 0;
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) {
      C x[kVector];
      Unpack<In>(v[j], x);
      const int at = (j * 32 + lanes_.lane) * kVector;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (at + e < n) sum += EntropyTerm(x[e], max, segment_.scale);
      }
    }
    return LaneSum(sum, 32);
  }

  // Whether the other parts of the row are done.
  __device__ bool IsLastOfRow() {
    __syncthreads();
    if (segment_.parts > 1) {
      if (threadIdx.x == 0) {
        __threadfence();
        std::uint32_t* const counter = params_.counters + segment_.first_counter + row_;
        shared_.is_last = atomicAdd(counter, 1u) + 1 == segment_.parts ? 1 : 0;
        if (shared_.is_last != 0) *counter = 0;
        __threadfence();
      }
      __syncthreads();
      if (shared_.is_last == 0) return false;
    }
    return true;
  }

  // Other blocks have written it: not from the L1.
  __device__ static Stats<C> Fetch(const Stats<C>* entry) { return {__ldcg(&entry->max), __ldcg(&entry->sum)}; }

  __device__ void FoldRow() {
    const bool is_flat = chunks_ <= kFlatChunks;
    if (is_flat) {
      for (int c = static_cast<int>(threadIdx.x); c < chunks_; c += kBlockThreads) {
        const Stats<C> stats = Fetch(stats_ + c);
        shared_.table[c] = stats;
        shared_.keys[c] = MakeKeyOf<In>(stats.max);
      }
      __syncthreads();
    }
    if (warp_ > 0) return;
    const Stats<C> stats = is_flat ? FoldFlat(shared_.table, chunks_, lanes_.lane, scale_) : FoldGroups();
    double products = 0;
    if (segment_.entropy != nullptr) {
      for (int c = lanes_.lane; c < chunks_; c += 32) products += ProductsOf(c, stats.max);
      products = LaneSum(products, 32);
    }
    if (lanes_.lane == 0) {
      shared_.row = stats;
      shared_.products = products;
    }
  }
  __device__ Stats<C> FoldGroups() const {
    RowFold<C> fold;
    const int groups = (chunks_ + kGroupChunks - 1) / kGroupChunks;
    for (int g = 0; g < groups; ++g) {
      const int c = g * kGroupChunks + lanes_.lane;
      fold.chunk = c < chunks_ ? Fetch(stats_ + c) : NoStats<C>();
      fold.EndGroup(g, lanes_.lane, scale_);
    }
    return fold.Finish(scale_);
  }
  // A chunk's part of the sum of exp(d) * d, its distances taken from the row's maximum.
  __device__ double ProductsOf(int chunk, C max) const {
    const Stats<C> stats = Fetch(stats_ + chunk);
    const double shift = (static_cast<double>(stats.max) - static_cast<double>(max)) * segment_.scale;
    if (!(shift > -700)) return 0;  // nothing of it is left; -inf among them
    return exp(shift) * (__ldcg(products_ + chunk) + shift * static_cast<double>(stats.sum));
  }

  // Once a row: not inlined, as the chunks need the registers.
  __device__ __noinline__ void FinishRow(bool is_small) {
    __syncthreads();
    const RowResults<In> results(segment_, params_.output_type, row_, input_, valid_, shared_.row, scale_);
    const bool has_nan = results.is_nan() && segment_.log_sum_exp != nullptr && HasNan();
    if (segment_.values_at != nullptr) {
      for (std::int64_t i = threadIdx.x; i < segment_.at; i += kBlockThreads) results.WriteAt(i);
    }
    if (segment_.top_values != nullptr) {
      const auto found = results.is_nan() ? 0 : static_cast<int>(min(valid_, std::int64_t{segment_.top_k}));
      if (found > 0) FindTop(found, is_small);
      // By another warp than those that have the top to write.
      if (threadIdx.x == kBlockThreads - 1) results.WriteNumbers(shared_.products, has_nan);
      if (found > 0) {
        WriteInOrder(shared_.top, found,
                     [&](int i, std::uint32_t index) { results.WriteTop(i, static_cast<std::int32_t>(index)); });
      }
      for (int i = found + static_cast<int>(threadIdx.x); i < segment_.top_k; i += kBlockThreads) {
        results.WriteTop(i, -1);
      }
    } else if (threadIdx.x == 0) {
      results.WriteNumbers(shared_.products, has_nan);
    }
    __syncthreads();  // the next row uses the same shared memory
  }
  // By the whole block, of a row that comes out all NaN.
  __device__ bool HasNan() const {
    bool found = false;
    for (std::int64_t c = threadIdx.x; c < valid_; c += kBlockThreads) {
      const C x = ToCompute(input_[c * segment_.inner]);
      found = found || x != x;
    }
    return __syncthreads_or(found ? 1 : 0) != 0;
  }

  // Leaves the row's `k` first elements, and perhaps others, among the candidates.
  __device__ void FindTop(int k, bool is_small) {
    TopShared<In>& top = shared_.top;
    if (threadIdx.x == 0) top.count = shared_.chunk_count = 0;
    Key threshold = 0;
    if (!is_small && valid_ > kCandidates / 2) threshold = RowThreshold(k);
    __syncthreads();
    CollectFrom(threshold, is_small);
    __syncthreads();
    if (top.count <= kCandidates) return;
    CollectExactly(k, threshold, is_small);
  }
  // A key that at least k elements reach, as that many chunks or lanes have a maximum that does.
  __device__ Key RowThreshold(int k) {
    const int maxima = segment_.has_lanes != 0 ? chunks_ * 32 : chunks_;
    if (maxima < k) return 0;
    return Threshold(shared_.top, k, k + k / 4, [&](Key key) {
      int count = 0;
#pragma unroll 4
      for (int i = static_cast<int>(threadIdx.x); i < maxima; i += kBlockThreads) {
        const Key mine = segment_.has_lanes != 0 ? __ldcg(lane_maxima_ + i) : KeyAt(i);
        count += mine >= key ? 1 : 0;
      }
      return count;
    });
  }
  __device__ __forceinline__ Key KeyAt(int chunk) const {
    return chunks_ <= kFlatChunks ? shared_.keys[chunk] : MakeKeyOf<In>(__ldcg(&stats_[chunk].max));
  }

  // Calls visit(key, column) with the elements whose keys reach the threshold, in any order; `visit` by whole warps
  // with is_there false where there is none.
  template <typename F>
  __device__ void Visit(Key threshold, bool is_small, F visit) {
    if (is_small || threshold == 0) {
      VisitColumns(0, valid_, threshold, visit);
      return;
    }
    for (int begin = 0; begin < chunks_; begin += kFlatChunks) {
      const int end = min(begin + kFlatChunks, chunks_);
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
  template <typename F>
  __device__ __forceinline__ void VisitChunks(int count, Key threshold, F visit) const {
    if (segment_.wide != 0 && segment_.inner == 1) {
      VisitVectors(count, threshold, visit);
      return;
    }
    for (int i = 0; i < count; ++i) {
      const std::int64_t first = ColumnOf(shared_.chunks[i]);
      VisitColumns(first, first + Within(first, kChunk), threshold, visit);
    }
  }
  template <typename F>
  __device__ __forceinline__ void VisitColumns(std::int64_t first, std::int64_t end, Key threshold, F visit) const {
    constexpr int kAtOnce = 4;
    for (std::int64_t c = first; c < end; c += kAtOnce * kBlockThreads) {
      In x[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int64_t at = c + i * kBlockThreads + threadIdx.x;
        if (at < end) x[i] = input_[at * segment_.inner];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int64_t at = c + i * kBlockThreads + threadIdx.x;
        const Key key = at < end ? MakeKey<In>(x[i]) : Key{0};
        visit(at < end && key >= threshold, key, at);
      }
    }
  }
  // The chunks in shared_.chunks, a vector a thread, so that many are on their way.
  template <typename F>
  __device__ __forceinline__ void VisitVectors(int count, Key threshold, F visit) const {
    constexpr int kChunkVectors = kChunk / kVector;
    constexpr int kAtOnce = 4;
    const int vectors = count * kChunkVectors;
    for (int begin = 0; begin < vectors; begin += kAtOnce * kBlockThreads) {
      uint4 v[kAtOnce];
      std::int64_t columns[kAtOnce];
      int n[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = begin + i * kBlockThreads + static_cast<int>(threadIdx.x);
        n[i] = 0;
        columns[i] = 0;
        v[i] = NothingVector<In>();
        if (at < vectors) {
          columns[i] = ColumnOf(shared_.chunks[at / kChunkVectors]) + at % kChunkVectors * kVector;
          n[i] = Within(columns[i], kVector);
        }
        if (n[i] == kVector) {
          v[i] = *reinterpret_cast<const uint4*>(input_ + columns[i]);
        } else if (n[i] > 0) {
          v[i] = LoadRange(input_ + columns[i], 0, n[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        In x[kVector];
        memcpy(x, &v[i], sizeof(x));
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const Key key = MakeKey<In>(x[e]);
          visit(e < n[i] && key >= threshold, key, columns[i] + e);
        }
      }
    }
  }

  __device__ void CollectFrom(Key threshold, bool is_small) {
    Visit(threshold, is_small, [&](bool is_there, Key key, std::int64_t column) {
      if (is_there) AddCandidate(shared_.top, key, column);
    });
  }

  // Too many reach the threshold: digit by digit, of the key and then of the index, those are found that are not among
  // the k first. The row is read once for each digit, from the L2.
  __device__ __noinline__ void CollectExactly(int k, Key threshold, bool is_small) {
    TopShared<In>& top = shared_.top;
    int* const bins = reinterpret_cast<int*>(top.keys);
    static_assert(sizeof(top.keys) >= 256 * sizeof(int));
    Key key_prefix = 0;
    std::uint32_t index_prefix = 0;  // of ~index
    int left = k;                    // to be found among those with the prefix
    bool done = false;
    for (int digit = kKeyBits<In> / 8 + 3; digit >= 0 && !done; --digit) {
      const bool of_key = digit >= 4;
      const int shift = of_key ? (digit - 4) * 8 : digit * 8;
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < 256; i += kBlockThreads) bins[i] = 0;
      __syncthreads();
      Visit(threshold, is_small, [&](bool is_there, Key key, std::int64_t column) {
        const auto turned = ~static_cast<std::uint32_t>(column);
        bool counts = is_there;
        int bin = 0;
        if (of_key) {
          counts = counts && HasPrefix(key, key_prefix, shift + 8);
          bin = static_cast<int>(key >> shift) & 255;
        } else {
          counts = counts && key == key_prefix && HasPrefix(turned, index_prefix, shift + 8);
          bin = static_cast<int>(turned >> shift) & 255;
        }
        CountInWarp(bins, counts, bin);
      });
      __syncthreads();
      // The same for all threads: the first digit from above at which enough are counted.
      int bin = 255;
      int above = 0;
      while (above + bins[bin] < left) above += bins[bin--];
      const bool is_whole = above + bins[bin] == left;
      left -= above;
      if (of_key) {
        key_prefix |= static_cast<Key>(static_cast<Key>(bin) << shift);
      } else {
        index_prefix |= static_cast<std::uint32_t>(bin) << shift;
      }
      done = is_whole;
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
  template <typename T>
  __device__ static bool HasPrefix(T value, T prefix, int bits) {
    return bits >= static_cast<int>(sizeof(T)) * 8 || (value >> bits) == (prefix >> bits);
  }
  // Lanes that count for the same bin, as neighbours often do, add together.
  __device__ static void CountInWarp(int* bins, bool counts, int bin) {
    const unsigned active = __activemask();
    const unsigned counting = __ballot_sync(active, counts);
    if (!counts) return;
    const unsigned same = __match_any_sync(counting, bin);
    if ((same & ((1u << (threadIdx.x % 32)) - 1)) == 0) atomicAdd(bins + bin, __popc(same));
  }

  const SummaryParams& params_;
  const DeviceSummary& segment_;
  const Scale<C>& scale_;
  SummaryShared<In>& shared_;
  const Lanes lanes_;
  const int warp_;
  const int chunks_;

  // The row at hand.
  std::int64_t row_ = 0;
  std::int64_t valid_ = 0;
  const In* input_ = nullptr;
  Stats<C>* stats_ = nullptr;
  double* products_ = nullptr;
  Key* lane_maxima_ = nullptr;
};

}  // namespace softmax::kernels::cuda
