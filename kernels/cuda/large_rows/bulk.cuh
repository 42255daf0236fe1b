#pragma once

#include "kernels/cuda/blocks/again.cuh"
#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/blocks/chunk_table.cuh"
#include "kernels/cuda/blocks/matrix.cuh"
#include "kernels/cuda/core/math.cuh"
#include "kernels/cuda/large_rows/bulk.h"

// Rows of several chunks, or parts of them, in shared memory as the aligned vectors that memory has (see
// core/row_part.cuh), copied there and back in bulk. Few warps share them, so that what belongs to a row and not to its
// elements (addresses, edges, exchanges of statistics) is done few times, and what waits in one row is made up for by
// the other rows on the multiprocessor.
namespace softmax::kernels::cuda {

// Some neighbouring columns of a row, from the beginning of a chunk on. kSkew: rows may miss the boundaries. kApart:
// the first lane's vectors, which end in the next ones, are made once and lie apart; otherwise each time they are read.
template <typename In, bool kSkew, bool kApart = false>
class BulkPart {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kChunkVectors = kChunkSlots * 32;
  static constexpr int kSlotColumns = 32 * kVector;
  // Vectors behind those of the chunks: where rows are skewed, the last lane's columns end there.
  static constexpr int kBehind = kSkew ? 1 : 0;

  // Names the place of a part of `columns` columns. `n`: columns from its first on that count, maybe less than none or
  // more than it has. `row_first`: it begins the row.
  // `apart`: a vector for each slot.
  __device__ __forceinline__ BulkPart(const In* input, int columns, int n, bool row_first, uint4* shared,
                                      uint4* apart = nullptr)
      : skip_(kSkew ? Misalignment(input) : 0),
        base_(input - skip_),
        shared_(shared + (static_cast<int>(reinterpret_cast<std::uintptr_t>(base_) / kVectorBytes) & 7)),
        apart_(apart) {
    const int count = min(columns, n);
    // What lies before the part in its first vector is the row's, unless the part begins it.
    end_ = row_first ? (count > 0 ? count + skip_ : 0) : max(0, count + skip_);
    slots_ = PaddedSlots((row_first ? count + kSlotColumns - 1 : max(0, count + kSlotColumns - 1)) / kSlotColumns);
  }

  // By a whole warp, with `barrier` set up: starts the copy of what may be read in whole vectors, and makes the others.
  __device__ __forceinline__ void Start(Around around, int from, int to, std::uint64_t* barrier) const {
    const int head = around.before || skip_ == 0 ? 0 : 1;
    const int whole = around.after ? (end_ + kVector - 1) / kVector : end_ / kVector;
    const int first = max(head, from);
    const int last = min(whole, to);
    if (lane_ == 0) StartBulkLoad(shared_ + first, base_ + first * kVector, (last - first) * kVectorBytes, barrier);
    In* const elements = reinterpret_cast<In*>(shared_);
    if (from == 0 && head > 0 && lane_ >= skip_ && lane_ < min(end_, kVector)) elements[lane_] = base_[lane_];
    const int at = whole * kVector + lane_;
    if (whole >= first && whole < to && at < end_) elements[at] = base_[at];
  }
  // By the warp that takes the last of the columns that count, once the copy is there: the other places of the first
  // `slots` slots, and of the vector after them, hold nothing.
  __device__ __forceinline__ void Fill(int slots) const {
    const int at = end_ + lane_;
    if (at < Tail() * kVector) reinterpret_cast<In*>(shared_)[at] = Nothing();
    for (int v = Tail() + lane_; v < slots * 32 + kBehind; v += 32) shared_[v] = NothingVector<In>();
  }

  // By a whole warp after that: makes what lies apart of slots [from, to).
  __device__ __forceinline__ void SetApart(int from, int to) const {
    if constexpr (!kApart) return;
    const BlendMask mask(skip_ * static_cast<int>(sizeof(In)));
    for (int j = from + lane_; j < to; j += 32) apart_[j] = mask.Blend(shared_[j * 32], shared_[j * 32 + 32]);
    __syncwarp();
  }

  // Calls publish(k, statistics) for chunks [k, last). `careful`: the row's columns that count, or kManyColumns
  // where few of them want no more care.
  template <typename F>
  __device__ __forceinline__ void Reduce(int k, int last, int careful, const Scale<C>& scale, F publish) const {
    const BlendMask mask = Mask();
    if (k == 0 && careful <= kPreciseColumns) {
      uint4 v[1] = {Blend(mask, *From(0), shared_ + 32)};
      if (slots_ == 0) v[0] = NothingVector<In>();
      publish(0, Stats<C>(PreciseStats<In, false>(v, Lanes{lane_, 32}, scale)));
      k = 1;
    }
#pragma unroll 1
    for (; k + 2 <= last && (k + 2) * kChunkSlots <= slots_; k += 2) {
      Stats<C> stats[2];
      WholeChunks(k, mask, scale, stats);
      publish(k, stats[0]);
      publish(k + 1, stats[1]);
    }
#pragma unroll 1
    for (; k < last && (k + 1) * kChunkSlots <= slots_; ++k) {
      Stats<C> stats[1];
      WholeChunks(k, mask, scale, stats);
      publish(k, stats[0]);
    }
#pragma unroll 1
    for (; k < last; ++k) {
      publish(k, ShortChunk(k, min(kChunkSlots, slots_ - k * kChunkSlots), mask, scale));
    }
  }

  // Replaces vectors [first, last) by their results.
  __device__ __forceinline__ void Replace(int first, int last, const Normalizer<C>& normalize) const {
    WithResults<In>(normalize, [&](auto result) { ReplaceEach(first, last, result); });
  }
  // The same where only the first `valid` columns are not masked.
  __device__ __forceinline__ void ReplaceMasked(int first, int last, int valid, const Normalizer<C>& normalize) const {
    const int valid_end = valid + skip_;
#pragma unroll 1
    for (int v = first + lane_; v < last; v += 32) {
      shared_[v] = VectorResults<In, true>(shared_[v], valid_end - v * kVector, normalize);
    }
  }
  // Stores results, of vectors [first, last) of a part with `cols` columns. A whole warp calls it.
  __device__ __forceinline__ void Store(In* output, int first, int last, int cols, bool row_first) const {
    In* const base = output - skip_;
    const int end = cols + skip_;
    FenceForBulkCopies();
    __syncwarp();
    const int body = end / kVector;  // the vectors from here on, and before `head`, are not all the row's
    const int head = row_first && skip_ > 0 ? 1 : 0;
    const int from = max(first, head);
    const int to = min(last, body);
    if (lane_ == 0 && from < to) StoreBulk(base + from * kVector, shared_ + from, (to - from) * kVectorBytes);
    const In* const elements = reinterpret_cast<const In*>(shared_);
    if (first == 0 && head > 0 && lane_ >= skip_ && lane_ < kVector) base[lane_] = elements[lane_];
    const int at = body * kVector + lane_;
    if (last > body && at < end) base[at] = elements[at];
  }
  // Stores results as elements of another type, of vectors [first, last) of a part with `cols` columns, of which
  // `valid` are not masked, from the elements that Replace() has not replaced. A whole warp calls it.
  template <typename Out>
  __device__ __forceinline__ void StoreMixed(Out* output, int first, int last, int cols, int valid, bool row_first,
                                             const Normalizer<C>& normalize) const {
    const int begin = first == 0 && row_first ? skip_ : first * kVector;
    StoreMixedRow<sizeof(In) == 4 ? 2 : 1>(reinterpret_cast<const In*>(shared_), output - skip_, begin,
                                           min(last * kVector, cols + skip_), valid + skip_, normalize);
  }
  // Vectors that hold `cols` columns.
  __device__ __forceinline__ int Vectors(int cols) const { return (cols + skip_ + kVector - 1) / kVector; }
  __device__ __forceinline__ int slots() const { return slots_; }
  // Columns from the boundary before the part to its first.
  __device__ __forceinline__ int skip() const { return skip_; }

 private:
  __device__ __forceinline__ static In Nothing() {
    const uint4 nothing = NothingVector<In>();
    In element;
    memcpy(&element, &nothing, sizeof(element));
    return element;
  }

  // The first vector behind the columns that count.
  __device__ __forceinline__ int Tail() const { return (end_ + kVector - 1) / kVector; }
  __device__ __forceinline__ BlendMask Mask() const {
    return BlendMask(kBlends && lane_ == 0 ? skip_ * static_cast<int>(sizeof(In)) : 0);
  }
  __device__ __forceinline__ static uint4 Blend(const BlendMask& mask, const uint4& v, const uint4* next) {
    if constexpr (kBlends) return mask.Blend(v, *next);
    return v;
  }
  // The lane's vector of slot j, and how far it is to the next slot's.
  __device__ __forceinline__ const uint4* From(int j) const {
    return kApart && lane_ == 0 ? apart_ + j : shared_ + j * 32 + lane_;
  }
  __device__ __forceinline__ int Step() const { return kApart && lane_ == 0 ? 1 : 32; }

  // The statistics of chunks from k on, all of whose slots hold columns.
  template <int kCount>
  __device__ __forceinline__ void WholeChunks(int k, const BlendMask& mask, const Scale<C>& scale,
                                              Stats<C> (&stats)[kCount]) const {
    const uint4* const from = From(k * kChunkSlots);
    const int step = Step();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      uint4 v[kChunkSlots];
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) v[j] = from[(i * kChunkSlots + j) * step];
      // The maximum does not mind in which of lane 0's vectors the chunk's last elements are.
      v[0] = Blend(mask, v[0], from + (i + 1) * kChunkVectors - lane_);
      stats[i].max = LaneMaximum<In, kChunkSlots, true>(v, 0, Lanes{lane_, 32});
    }
    WarpMaxima(stats);
    C corrections[kCount];
    double totals[kCount];
    bool plain = true;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const ExpBase<C> base(stats[i].max, scale);
      corrections[i] = base.correction;
      plain = plain && base.IsPlain();
    }
    const auto add_up = [&](auto exp) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const uint4* const chunk = from + i * kChunkSlots * step;
        C sums[kVector];
        uint4 v = chunk[0];
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) {
          uint4 next = v;
          if (j + 1 < kChunkSlots) {
            next = chunk[(j + 1) * step];
          } else if (kBlends) {
            next = chunk[kChunkVectors - lane_];
          }
          C x[kVector];
          Unpack<In>(Blend(mask, v, &next), x);
#pragma unroll
          for (int e = 0; e < kVector; ++e) sums[e] = j == 0 ? exp(i, x[e]) : sums[e] + exp(i, x[e]);
          v = next;
        }
        if constexpr (kSkew) RotateSums<In>(skip_, Lanes{lane_, 32}, sums);
        totals[i] = PlacesSum(sums);
      }
    };
    if (plain) {
      add_up([&](int i, C x) { return ExpBase<C>(stats[i].max, scale).PlainExp(x, scale); });
    } else {
      add_up([&](int i, C x) { return ExpBase<C>(stats[i].max, scale).Exp(x, scale); });
    }
    WarpSums(totals, corrections, stats);
  }
  // Those of chunk k, of which the first `slots` slots hold columns, one by one.
  __device__ __forceinline__ Stats<C> ShortChunk(int k, int slots, const BlendMask& mask, const Scale<C>& scale) const {
    const uint4* const from = From(k * kChunkSlots);
    const int step = Step();
    if (slots <= 0) return NoStats<C>();
    uint4 v[1];
    C max = -Infinity<C>();
#pragma unroll 1
    for (int j = 0; j < slots; ++j) {
      v[0] = Blend(mask, from[j * step], from + (j + 1) * 32 - lane_);
      max = Larger(max, LaneMaximum<In, 1, true>(v, 0, Lanes{lane_, 32}));
    }
    max = LaneMax(max, 32);
    const ExpBase<C> base(max, scale);
    C sums[kVector] = {};
#pragma unroll 1
    for (int j = 0; j < slots; ++j) {
      C x[kVector];
      Unpack<In>(Blend(mask, from[j * step], from + (j + 1) * 32 - lane_), x);
#pragma unroll
      for (int e = 0; e < kVector; ++e) sums[e] += base.Exp(x[e], scale);
    }
    if constexpr (kSkew) RotateSums<In>(skip_, Lanes{lane_, 32}, sums);
    return {max, static_cast<C>(LaneSum(PlacesSum(sums), 32) * base.correction)};
  }
  template <typename F>
  __device__ __forceinline__ void ReplaceEach(int first, int last, F result) const {
    constexpr int kAtOnce = sizeof(In) == 8 ? 2 : 4;
    int v = first + lane_;
#pragma unroll 1
    for (; v + (kAtOnce - 1) * 32 < last; v += kAtOnce * 32) {
      uint4 x[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) x[j] = shared_[v + j * 32];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) shared_[v + j * 32] = result(x[j]);
    }
#pragma unroll 1
    for (; v < last; v += 32) shared_[v] = result(shared_[v]);
  }

  static constexpr bool kBlends = kSkew && !kApart;

  int skip_;
  const In* base_;
  uint4* shared_;
  uint4* apart_;
  int end_;    // elements from the first vector on that count
  int slots_;  // of 32 vectors that hold columns that count, padded
  int lane_ = static_cast<int>(threadIdx.x) % 32;
};

// Rows that miss the boundaries (doubles: any), a block for each: down to one warp.
template <typename In, bool kMixed>
__global__ void __launch_bounds__(kBulkThreads, kBulkWarps / (kBulkThreads / 32))
    BulkMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  using Row = BulkPart<In, true, HasApart(sizeof(In), true)>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ Stats<C> table[BulkChunks(sizeof(In))];
  __shared__ std::uint64_t barrier;
  static_assert(sizeof(table) + sizeof(barrier) <= BulkTableBytes(sizeof(In)), "what the plan counts with");
  const Scale<C> scale = ScaleOf<C>(params);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_chunk = SmallQuotient(warp * params.chunks, params.warps);
  const int last_chunk = SmallQuotient((warp + 1) * params.chunks, params.warps);
  const std::int64_t row = blockIdx.x;
  AskAhead<In>(params);
  BeginAccess(params);
  const auto valid = static_cast<int>(ValidLength(params, row));
  const Row bulk(static_cast<const In*>(params.input) + row * params.input_stride, valid, valid, true,
                 reinterpret_cast<uint4*>(dynamic), reinterpret_cast<uint4*>(dynamic) + params.warp_vectors);
  if (warp == 0) {
    if (lane == 0) StartBarrier(&barrier);
    bulk.Start(AroundOf<In>(params, row, 0, valid), 0, params.chunks * Row::kChunkVectors + Row::kBehind, &barrier);
  }
  __syncthreads();
  WaitForBulkLoad(&barrier);
  const auto publish = [&](int k, const Stats<C>& stats) {
    if (lane == 0) table[k] = stats;
  };
  if (bulk.slots() > first_chunk * kChunkSlots && bulk.slots() <= last_chunk * kChunkSlots) bulk.Fill(bulk.slots());
  __syncwarp();
  bulk.SetApart(first_chunk * kChunkSlots, min(last_chunk * kChunkSlots, bulk.slots()));
  bulk.Reduce(first_chunk, last_chunk, params.log ? valid : kManyColumns, scale, publish);
  __syncthreads();
  // As FoldFlat() folds them, where there are at most 32.
  const Stats<C> stats = sizeof(In) == 8 ? FoldFlat(table, params.chunks, lane, scale)
                                         : CombineLanes(lane < params.chunks ? table[lane] : NoStats<C>(), scale);
  const Normalizer<C> normalize(scale, stats, params.log, valid == 0);
  const auto cols = static_cast<int>(params.cols);
  const int first = first_chunk * Row::kChunkVectors;
  const int last = last_chunk == params.chunks ? bulk.Vectors(cols) : last_chunk * Row::kChunkVectors;
  ForOutput<In, kMixed>(params, row, [&](auto* output) {
    if constexpr (kMixed) {
      bulk.StoreMixed(output, first, last, cols, valid, true, normalize);
    } else {
      if (valid == cols) {
        bulk.Replace(first, last, normalize);
      } else {
        bulk.ReplaceMasked(first, last, valid, normalize);
      }
      bulk.Store(output, first, last, cols, true);
      EndBulkStores(params.completion);
    }
  });
  Complete(params.completion);
}

// Rows of more chunks than one block takes well: the blocks of a cluster take a part each, copied there and back in
// bulk by the warps that work on it. Parts of about 32 KB, as many as make 130 to 200 KB on a multiprocessor: their
// phases overlap, and a launch begins and ends with little.

// A warp's share of a block's part of a row.
struct PartsPlace {
  int warp;
  int before;  // chunks of the row before the part
  int chunks;  // of the part
  int first;   // of the part's chunks, the warp's
  int last;
  std::int64_t row;

  __device__ __forceinline__ explicit PartsPlace(const MatrixParams& params) : warp(ThreadAgain() / 32) {
    const int part = RankAgain();
    before = SmallQuotient(part * params.chunks, params.cluster_blocks);
    chunks = SmallQuotient((part + 1) * params.chunks, params.cluster_blocks) - before;
    first = SmallQuotient(warp * chunks, params.warps);
    last = SmallQuotient((warp + 1) * chunks, params.warps);
    row = BlockAgain() / static_cast<std::uint32_t>(params.cluster_blocks);
  }
};

template <typename In, bool kSkew, bool kMixed>
__global__ void __launch_bounds__(32 * PartWarps(sizeof(In)), kSkew ? 5 : 4)
    PartsMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  constexpr bool kApart = HasApart(sizeof(In), kSkew);
  using Part = BulkPart<In, kSkew, kApart>;
  constexpr int kChunk = Element<In>::kChunk;
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ typename ChunkTable<C>::Control control;
  __shared__ std::uint64_t barriers[PartWarps(sizeof(In))];
  __shared__ Stats<C> mine[PartChunks(sizeof(In), kMixed)];  // of the part's chunks
  __shared__ uint4 apart[kApart ? PartChunks(sizeof(In), kMixed) * kChunkSlots : 1];
  static_assert(sizeof(control) + sizeof(barriers) + sizeof(mine) + sizeof(apart) <= PartTableBytes(sizeof(In), kSkew),
                "what the plan counts with");
  const Scale<C> scale = ScaleOf<C>(params);
  // The statistics of the row's chunks come after the part.
  const ChunkTable<C> table(reinterpret_cast<Stats<C>*>(dynamic + params.slice_bytes), &control,
                            Team{params.cluster_blocks});
  if (threadIdx.x % 32 == 0) StartBarrier(&barriers[ThreadAgain() / 32]);
  table.Arrive(params.chunks);
  AskAhead<In>(params);
  BeginAccess(params);
  {
    const PartsPlace place(params);
    const int column = place.before * kChunk;
    const int columns = place.chunks * kChunk;
    const auto valid = static_cast<int>(ValidLength(params, place.row));
    const Part part(static_cast<const In*>(params.input) + place.row * params.input_stride + column, columns,
                    valid - column, column == 0, reinterpret_cast<uint4*>(dynamic), apart);
    const Around around = AroundOf<In>(params, place.row, column, min(columns, valid - column));
    const bool is_last = place.last == place.chunks;
    part.Start(around, place.first * Part::kChunkVectors,
               place.last * Part::kChunkVectors + (is_last ? Part::kBehind : 0), &barriers[place.warp]);
    table.Begin();
    __syncwarp();
    WaitForBulkLoad(&barriers[place.warp]);
    // The vector behind a warp's chunks is the next one's.
    if (kSkew && !is_last) WaitForBulkLoad(&barriers[place.warp + 1]);
    // It may end what is read, or be filled where a row is cut, by the next warp's threads.
    if (params.lengths != nullptr || !around.after) __syncthreads();
    const int slots = part.slots();
    if (slots > place.first * kChunkSlots && slots <= place.last * kChunkSlots) part.Fill(slots);
    __syncwarp();
    part.SetApart(place.first * kChunkSlots, place.last * kChunkSlots);
    part.Reduce(place.first, place.last, params.log && column == 0 ? valid : kManyColumns, scale,
                [&](int k, const Stats<C>& stats) { mine[k] = stats; });
  }
  __syncwarp();
  const PartsPlace place(params);
  for (int k = place.first; k < place.last; ++k) table.Publish(place.before + k, mine[k]);
  const Stats<C> stats = table.Fold(0, params.chunks, scale);
  const int column = place.before * kChunk;
  const int columns = place.chunks * kChunk;
  const auto valid = static_cast<int>(ValidLength(params, place.row));
  const Part part(static_cast<const In*>(params.input) + place.row * params.input_stride + column, columns,
                  valid - column, column == 0, reinterpret_cast<uint4*>(dynamic));
  const Normalizer<C> normalize(scale, stats, params.log, valid == 0);
  const auto left = static_cast<int>(params.cols) - column;
  const bool ends_row = place.last == place.chunks && left <= columns;
  const int first = place.first * Part::kChunkVectors;
  const int last = ends_row ? part.Vectors(left) : place.last * Part::kChunkVectors;
  ForOutput<In, kMixed>(params, place.row, [&](auto* output) {
    if constexpr (kMixed) {
      part.StoreMixed(output + column, first, last, min(columns, left), valid - column, column == 0, normalize);
    } else {
      if (valid == params.cols) {
        part.Replace(first, last, normalize);
      } else {
        part.ReplaceMasked(first, last, valid - column, normalize);
      }
      part.Store(output + column, first, last, min(columns, left), column == 0);
      EndBulkStores(params.completion);
    }
  });
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
