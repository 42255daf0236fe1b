#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/core/row_part.cuh"

// Neighbouring chunks of a row, held by a warp in shared memory as the aligned vectors that memory has (see
// core/row_part.cuh): few registers, so that many bytes can be on their way. Rows begin and end anywhere, and little
// code serves for all of them.
namespace softmax::kernels::cuda {

template <typename In, bool kSkew>
class Slice {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kChunkVectors = kChunkSlots * 32;

  // The place of a slice: room for `chunks` chunks and kEdgeVectors, so that vectors lie on lines of shared memory as
  // they do in global memory. `p`: the first column; `n`: columns from there to the end of what counts.
  __device__ __forceinline__ Slice(const In* p, std::int64_t n, int chunks, uint4* shared)
      : chunks_(chunks), skip_(kSkew ? Misalignment(p) : 0) {
    line_ = static_cast<int>(reinterpret_cast<std::uintptr_t>(p) / kVectorBytes) & 7;
    shared_ = shared + line_;
    const int most = (chunks * kChunkVectors + (kSkew ? 1 : 0)) * kVector;
    const std::int64_t end = n + skip_;
    end_ = end <= 0 ? 0 : end < most ? static_cast<int>(end) : most;
  }

  // Starts the copy. kInTurn: Reduce() takes the chunks as they arrive. Whole vectors are read where others' elements
  // may be; of what else the slice begins or ends in, its own.
  template <bool kInTurn = false>
  __device__ __forceinline__ void Start(const In* p, Around around) const {
    WaitForBulkReads();
    __syncwarp();  // what was here before has been read by all
    const In* const base = p - skip_;
    const int first = kSkew && skip_ > 0 && !around.before ? 1 : 0;
    const int end = (around.after ? end_ + kVector - 1 : end_) / kVector;
    const uint4* from = reinterpret_cast<const uint4*>(base) + lane_ - line_;
    uint4* to = shared_ + lane_ - line_;
    if (first > 0 && end_ > skip_) CopyEdge(base, 0, skip_, min(end_, kVector));
#pragma unroll 1
    for (int at = -line_; at < end; at += kChunkVectors) {
      if (at >= first && at + kChunkVectors <= end) {
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) __pipeline_memcpy_async(to + j * 32, from + j * 32, sizeof(uint4));
      } else {
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) {
          const int vector = at + j * 32 + lane_;
          if (vector >= first && vector < end) __pipeline_memcpy_async(to + j * 32, from + j * 32, sizeof(uint4));
        }
      }
      from += kChunkVectors;
      to += kChunkVectors;
      if (kInTurn) __pipeline_commit();
    }
    if (end * kVector < end_ && end >= first) CopyEdge(base, end, 0, end_ - end * kVector);
    __pipeline_commit();
  }

  // Calls publish(k, statistics) for every chunk, in order. Without kInTurn the copies have come and the warp has met.
  // `careful`: the row's columns that count, if the slice begins it, or for softmax kManyColumns.
  template <bool kInTurn = false, typename F>
  __device__ __forceinline__ void Reduce(std::int64_t careful, const Scale<C>& scale, F publish) const {
    const auto await = [&](int copies) {
      if (!kInTurn) return;
      __pipeline_wait_prior(copies);
      __syncwarp();
    };
    const int copies = (end_ / kVector + line_ + kChunkVectors - 1) / kChunkVectors + 1;
    const int ahead = line_ > 0 || skip_ > 0 ? 2 : 1;
    const int filled = FilledChunks();
    int k = 0;
    if (careful <= kPreciseColumns) {
      await(0);
      publish(k++, FewStats(scale));
    }
#pragma unroll 1
    for (; k < filled; ++k) {
      const bool is_last = k == filled - 1;
      await(is_last ? 0 : max(0, copies - k - ahead));
      if (is_last) FillUp(filled);
      publish(k, ChunkStats(k * kChunkVectors, scale));
    }
#pragma unroll 1
    for (; k < chunks_; ++k) publish(k, NoStats<C>());
  }

  // The statistics of a row of up to kMost vectors a lane.
  template <int kMost>
  __device__ __forceinline__ Stats<C> RowStats(std::int64_t careful, const Scale<C>& scale) const {
    if (careful <= kPreciseColumns) return FewStats(scale);
    // Slots without columns change no bit.
    const int vectors = (end_ + kVector - 1) / kVector;
    const int slots = max(1, min(kMost, (vectors + 31) / 32));
    C max = -Infinity<C>();
#pragma unroll 1
    for (int j = 0; j < slots; ++j) {
      const uint4 v[1] = {AnyVector(j * 32)};
      max = Larger(max, LaneMaximum<In, 1, true>(v, 0, Lanes{lane_, 32}));
    }
    max = LaneMax(max, 32);
    const ExpBase<C> base(max, scale);
    C sums[kVector] = {};
#pragma unroll 1
    for (int j = 0; j < slots; ++j) {
      AddUp(AnyVector(j * 32), sums, [&](C x) { return base.Exp(x, scale); });
    }
    return Total(max, base, sums);
  }

  // The same as Store(), as elements of another type.
  template <typename Out>
  __device__ __forceinline__ void StoreMixed(Out* p, std::int64_t n, std::int64_t valid, bool row_first,
                                             const Normalizer<C>& normalize) const {
    int end;
    int valid_end;
    EndsOf(n, valid, &end, &valid_end);
    StoreMixedRow<1>(reinterpret_cast<const In*>(shared_), p - skip_, row_first ? skip_ : 0, end, valid_end, normalize);
  }
  // Stores the results of `n` columns, of which `valid` are not masked, both counted from the slice's first column.
  // `row_first`: the slice begins the row, so what lies before it is another's.
  __device__ __forceinline__ void Store(In* p, std::int64_t n, std::int64_t valid, bool row_first,
                                        const Normalizer<C>& normalize) const {
    In* const base = p - skip_;
    const int from = row_first ? skip_ : 0;
    int end;
    int valid_end;
    EndsOf(n, valid, &end, &valid_end);
    Replace((valid_end + kVector - 1) / kVector, normalize);
    FenceForBulkCopies();
    __syncwarp();
    // Vectors whose elements are all the row's and valid, which are stored in one piece; then the others.
    const int body = valid_end / kVector;
    const int first = kSkew && from > 0 ? 1 : 0;
    StoreBody(base, first, body);
    if (first > 0 && lane_ >= from && lane_ < kVector && body > 0) base[lane_] = Element(lane_);
    for (int at = body * kVector + lane_; at < end; at += 32) {
      if (at >= from) base[at] = at < valid_end ? Element(at) : FromCompute<In, C>(normalize.masked);
    }
  }

 private:
  static constexpr int kSize = static_cast<int>(sizeof(In));

  // Where the slice's columns, and those that are not masked, end: elements from its first vector on.
  __device__ __forceinline__ void EndsOf(std::int64_t n, std::int64_t valid, int* end, int* valid_end) const {
    const int columns = chunks_ * kChunkVectors * kVector;
    // The vector after the last slot belongs to the next slice, unless the row ends in it.
    const int most = n <= columns ? columns + kVector : columns;
    const std::int64_t row_end = n + skip_;
    *end = row_end < most ? static_cast<int>(row_end) : most;
    const std::int64_t row_valid = valid + skip_;
    *valid_end = row_valid <= 0 ? 0 : row_valid < *end ? static_cast<int>(row_valid) : *end;
  }

  // Elements [from, to) of a vector of which the row has no others: an element or, of 16 bits, a word for each lane. A
  // word that begins before the row is read whole, as no memory begins between its elements; memory may end there.
  __device__ __forceinline__ void CopyEdge(const In* base, int vector, int from, int to) const {
    constexpr int kEach = kSize == 2 ? 2 : 1;
    const int element = lane_ * kEach;
    if (element >= to || element + kEach <= from) return;
    const int at = vector * kVector + element;
    In* const shared = reinterpret_cast<In*>(shared_) + at;
    if (element + kEach <= to) {
      __pipeline_memcpy_async(shared, base + at, kEach * kSize);
    } else {
      *shared = base[at];
    }
  }

  __device__ __forceinline__ BlendMask Mask() const { return BlendMask(kSkew && lane_ == 0 ? skip_ * kSize : 0); }

  // Of the vectors from `first` on the lane's, as counted from the first column; what does not count is -inf.
  __device__ __forceinline__ uint4 AnyVector(int first) const {
    uint4 v = At(first + lane_);
    if constexpr (kSkew) v = Mask().Blend(v, At(first + 32));
    return v;
  }
  __device__ __forceinline__ uint4 At(int vector) const {
    const int left = end_ - vector * kVector;
    if (left <= 0) return NothingVector<In>();
    const uint4 v = shared_[vector];
    return left < kVector ? MaskFrom<In>(v, left) : v;
  }

  // Those of a row of which at most kPreciseColumns count.
  __device__ __forceinline__ Stats<C> FewStats(const Scale<C>& scale) const {
    const uint4 v[1] = {AnyVector(0)};
    return PreciseStats<In, false>(v, Lanes{lane_, 32}, scale);
  }

  // Chunks that hold columns.
  __device__ __forceinline__ int FilledChunks() const {
    constexpr int kColumns = kChunkVectors * kVector;
    return min((end_ - skip_ + kColumns - 1) / kColumns, chunks_);
  }
  // Makes what follows the slice's columns in the last of these -inf, so that all chunks are run alike.
  __device__ __forceinline__ void FillUp(int filled) const {
    const int until = filled * kChunkVectors + (kSkew ? 1 : 0);
    const int cut = end_ / kVector;
    if (cut >= until) return;
    if (lane_ == 0) shared_[cut] = MaskFrom<In>(shared_[cut], end_ % kVector);
#pragma unroll 1
    for (int vector = cut + 1 + lane_; vector < until; vector += 32) shared_[vector] = NothingVector<In>();
    __syncwarp();
  }

  // The statistics of a chunk.
  __device__ __forceinline__ Stats<C> ChunkStats(int first, const Scale<C>& scale) const {
    const uint4* const from = shared_ + first + lane_;
    const BlendMask mask = Mask();
    uint4 v[kChunkSlots];
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) v[j] = from[j * 32];
    if constexpr (kSkew) {
      const uint4 after = shared_[first + kChunkVectors];
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) {
        v[j] = mask.Blend(v[j], j + 1 < kChunkSlots ? v[j + 1] : after);
      }
    }
    const C max = LaneMax(LaneMaximum<In, kChunkSlots, true>(v, 0, Lanes{lane_, 32}), 32);
    const ExpBase<C> base(max, scale);
    C sums[kVector] = {};
    if (base.IsPlain()) {
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) AddUp(v[j], sums, [&](C x) { return base.PlainExp(x, scale); });
    } else {
#pragma unroll 1
      for (int j = 0; j < kChunkSlots; ++j) {
        uint4 w = from[j * 32];
        if constexpr (kSkew) w = mask.Blend(w, shared_[first + j * 32 + 32]);
        AddUp(w, sums, [&](C x) { return base.Exp(x, scale); });
      }
    }
    return Total(max, base, sums);
  }
  template <typename F>
  __device__ __forceinline__ static void AddUp(const uint4& v, C (&sums)[kVector], F exp) {
    C x[kVector];
    Unpack<In>(v, x);
#pragma unroll
    for (int e = 0; e < kVector; ++e) sums[e] += exp(x[e]);
  }
  __device__ __forceinline__ Stats<C> Total(C max, const ExpBase<C>& base, C (&sums)[kVector]) const {
    if constexpr (kSkew) RotateSums<In>(skip_, Lanes{lane_, 32}, sums);
    return {max, static_cast<C>(LaneSum(PlacesSum(sums), 32) * base.correction)};
  }

  // Replaces the vectors below `end` by their results, with what follows the slice's columns in its last chunk.
  __device__ __forceinline__ void Replace(int end, const Normalizer<C>& normalize) const {
    uint4* at = shared_ + lane_;
    const int chunks_end = min(end, chunks_ * kChunkVectors);
    int first = 0;
    const auto by_chunk = [&](auto result) {
#pragma unroll 1
      for (; first < chunks_end; first += kChunkVectors, at += kChunkVectors) {
        uint4 v[kChunkSlots];
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) v[j] = at[j * 32];
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) at[j * 32] = result(v[j]);
      }
    };
    WithResults<In>(normalize, by_chunk);
    // The vector in which a row may end behind its last chunk.
#pragma unroll 1
    for (; first < end; first += 32, at += 32) {
      if (first + lane_ < end) *at = VectorResults<In, true>(*at, kVector, normalize);
    }
  }
  __device__ __forceinline__ In Element(int at) const { return reinterpret_cast<const In*>(shared_)[at]; }

  // Vectors [first, end).
  __device__ __forceinline__ void StoreBody(In* base, int first, int end) const {
#if __CUDA_ARCH__ >= 900
    if (lane_ == 0 && first < end) {
      StoreBulk(base + first * kVector, shared_ + first, (end - first) * kVectorBytes);
    }
#else
#pragma unroll 4
    for (int vector = lane_ - line_; vector < end; vector += 32) {
      if (vector >= first) reinterpret_cast<uint4*>(base)[vector] = shared_[vector];
    }
#endif
  }

  int chunks_;
  int skip_;
  int line_;  // vectors from the beginning of a 128-byte line to the first
  uint4* shared_;
  int end_;  // elements from the first vector on that count
  int lane_ = static_cast<int>(threadIdx.x) % 32;
};

}  // namespace softmax::kernels::cuda
