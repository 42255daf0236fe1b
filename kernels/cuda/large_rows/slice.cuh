#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/core/row_part.cuh"

// Neighbouring chunks of a row, held by a warp in shared memory as the aligned vectors that memory has (see
// core/row_part.cuh): few registers, so that many bytes can be on their way, and the first chunk can be worked on while
// the last is still coming.
namespace softmax::kernels::cuda {

// kAtOnce: whole chunks that are reduced together, which takes registers.
template <typename In, int kAtOnce>
class Slice {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kMaxChunks = 4;
  static constexpr int kChunkVectors = kChunkSlots * 32;
  // Fewer instructions where registers allow it, as 16-bit elements take the most of them for their bytes: each chunk
  // asks once, and not each vector, if exponentials and results have their plain forms.
  static constexpr bool kSparing = sizeof(In) == 2 && kAtOnce == 1;

  // Starts the copy. `p`: the first column; `n`: columns from there to the end of what counts; `chunks` <= kMaxChunks.
  // The lanes begin on a 128-byte line, so that each access of the warp touches four of them and no fifth.
  __device__ __forceinline__ void Start(const In* p, std::int64_t n, Around around, int chunks, uint4* shared) {
    WaitForBulkReads();
    __syncwarp();  // what the slice held before has been read by all
    chunks_ = chunks;
    skip_ = Misalignment(p);
    // Vectors lie on lines of shared memory as they do in global memory: unless every row begins on a 128-byte line,
    // the slice takes kEdgeVectors more than its chunks.
    shared_ = shared + LineVectors(p - skip_);
    const int most = (chunks * kChunkVectors + Behind()) * kVector;
    const std::int64_t end = n + skip_;
    end_ = end <= 0 ? 0 : end < most ? static_cast<int>(end) : most;
    const In* const base = p - skip_;
    const int first = around.before ? 0 : skip_;
    const int whole = around.after ? end_ : end_ / kVector * kVector;  // vectors that start below it are read whole
    const int lane = lane_ - LineVectors(base);
#pragma unroll 1
    for (int k = 0; k < kMaxChunks; ++k) {
      if (k < chunks) {
        const int start = k * kChunkVectors - LineVectors(base);
        if (start * kVector >= first && (start + kChunkVectors) * kVector <= whole) {
#pragma unroll
          for (int j = 0; j < kChunkSlots; ++j) CopyOne(base, start + j * 32 + lane_);
        } else {
#pragma unroll
          for (int j = 0; j < kChunkSlots; ++j) Copy(base, start + j * 32 + lane_, first, whole);
        }
        if (k == chunks - 1) Copy(base, chunks * kChunkVectors + lane, first, whole);
      }
      __pipeline_commit();
    }
    StartEnds(base, first, whole);
  }
  // Calls publish(k, statistics) for every chunk, in order, as they arrive. `valid`: the row's columns that count, if
  // the slice begins it.
  template <typename F>
  __device__ __forceinline__ void Reduce(const In* p, std::int64_t valid, const Scale<C>& scale, F publish) const {
    // Chunks that do not end on a line end in what is copied with the next one.
    const int ahead = LineVectors(p - skip_) != 0 ? 1 : Behind();
    const auto wait = [&](int k) { Wait(k + ahead); };
    int k = ReduceWhole<kAtOnce>(0, wait, scale, publish);
#pragma unroll 1
    for (; k < chunks_; ++k) {
      wait(k);
      __syncwarp();
      publish(k, AnyChunkStats(k, k == 0 ? valid : kManyColumns, scale));
    }
  }

  // The statistics of one chunk, whose copy has arrived. The last one of a row may be nearly empty; slots without
  // columns change no bit.
  __device__ __forceinline__ Stats<C> AnyChunkStats(int k, std::int64_t valid, const Scale<C>& scale) const {
    const bool is_short = end_ - skip_ - k * kChunkVectors * kVector <= 32 * kVector;
    return is_short ? ChunkStats<1>(k, valid, scale) : ChunkStats<kChunkSlots>(k, valid, scale);
  }
  // Those of kSlots vectors a lane from the chunk's first on.
  template <int kSlots>
  __device__ __forceinline__ Stats<C> ChunkStats(int k, std::int64_t valid, const Scale<C>& scale) const {
    constexpr int kCount = kSlots + 1;
    const int first = k * kChunkVectors;
    uint4 w[kCount];
    if (end_ >= (first + kSlots * 32 + Behind()) * kVector) {
#pragma unroll
      for (int j = 0; j < kSlots; ++j) w[j] = shared_[first + j * 32 + lane_];
      w[kSlots] = shared_[first + kSlots * 32 + Behind() - 1];
    } else {
#pragma unroll
      for (int j = 0; j < kSlots; ++j) w[j] = At(first + j * 32 + lane_);
      w[kSlots] = At(first + kSlots * 32);
    }
    uint4 v[kSlots];
    const BlendMask mask = Mask();
#pragma unroll
    for (int j = 0; j < kSlots; ++j) v[j] = mask.Blend(w[j], w[j + 1]);
    return FirstVectorsStats<In, kSlots, true, false>(v, skip_, valid, Lanes{lane_, 32}, scale);
  }

  // As RowPart::Store. `n` and `valid` are counted from the slice's first column.
  __device__ __forceinline__ void Store(In* p, std::int64_t n, std::int64_t valid, bool row_first,
                                        const Normalizer<C>& normalize) const {
    In* const base = p - skip_;
    const int from = row_first ? skip_ : 0;
    const int columns = chunks_ * kChunkVectors * kVector;
    // The vector after the last slot belongs to the next slice, unless the row ends in it.
    const int most = n <= columns ? columns + kVector : columns;
    const std::int64_t row_end = n + skip_;
    const int end = row_end < most ? static_cast<int>(row_end) : most;
    const std::int64_t row_valid = valid + skip_;
    const int valid_end = row_valid <= 0 ? 0 : row_valid < most ? static_cast<int>(row_valid) : most;
    // Vectors whose elements are all the row's and valid; then the others.
    const int body = min(end, valid_end) / kVector * kVector;
    if (from > 0 && lane_ == 0 && body > 0) StoreEdge(base, 0, from, end, valid_end, normalize);
    for (int at = body + lane_ * kVector; at < end; at += 32 * kVector) {
      StoreEdge(base, at, from, end, valid_end, normalize);
    }
    StoreWhole(base, from > 0 ? 1 : 0, body / kVector, normalize);
  }

 private:
  // The row's first and last elements, where their vectors may not be read whole.
  __device__ __forceinline__ void StartEnds(const In* base, int first, int whole) const {
    if (first > 0 && lane_ == 0 && end_ > skip_) shared_[0] = LoadRange(base, skip_, min(end_, kVector));
    const int tail = end_ / kVector;
    // As LoadAligned() has it.
    if (whole < end_ && (first == 0 || (tail > 0 && end_ > skip_)) && lane_ == 31) {
      shared_[tail] = LoadRange(base + tail * kVector, 0, end_ % kVector);
    }
  }
  // Publishes chunks from k on, kCount at a time while so many whole ones are left; returns the next.
  template <int kCount, typename W, typename F>
  __device__ __forceinline__ int ReduceWhole(int k, W wait, const Scale<C>& scale, F publish) const {
    if constexpr (kCount <= kMaxChunks) {
#pragma unroll 1
      for (; k + kCount <= chunks_ && end_ >= ((k + kCount) * kChunkVectors + Behind()) * kVector; k += kCount) {
        wait(k + kCount - 1);
        __syncwarp();
        const BlendMask mask = Mask();
        const auto load = [&](int i, uint4(&v)[kChunkSlots]) {
          const uint4* const from = shared_ + (k + i) * kChunkVectors + lane_;
#pragma unroll
          for (int j = 0; j < kChunkSlots; ++j) v[j] = from[j * 32];
          const uint4 after = from[kChunkSlots * 32 - lane_ + Behind() - 1];
#pragma unroll
          for (int j = 0; j < kChunkSlots; ++j) v[j] = mask.Blend(v[j], j + 1 < kChunkSlots ? v[j + 1] : after);
        };
        Stats<C> stats[kCount];
        ChunksStats<In, kCount, true, kSparing>(load, skip_, scale, stats);
#pragma unroll
        for (int i = 0; i < kCount; ++i) publish(k + i, stats[i]);
      }
    }
    return k;
  }
  // Vectors behind those of a chunk that its last columns lie in: one where the row misses the boundaries.
  __device__ __forceinline__ int Behind() const { return skip_ > 0 ? 1 : 0; }
  __device__ __forceinline__ BlendMask Mask() const {
    const int bytes = lane_ == 0 ? skip_ * static_cast<int>(sizeof(In)) : 0;
    return kSparing ? BlendMask::Short(bytes) : BlendMask(bytes);
  }
  // Stores the results of vectors [first, last), again on 128-byte lines. Written in place and stored chunk by chunk in
  // one piece each, they reach the memory in longer runs than from registers.
  __device__ __forceinline__ void StoreWhole(In* base, int first, int last, const Normalizer<C>& normalize) const {
    const int line = LineVectors(base);
    const int lane = lane_ - line;
#if __CUDA_ARCH__ >= 900
#pragma unroll 1
    for (int k = 0; k < chunks_; ++k) {
      const int start = k * kChunkVectors - line;
      if (start >= first && start + kChunkVectors <= last) {
        Replace<true>(start + lane_, first, last, normalize);
      } else {
        Replace<false>(start + lane_, first, last, normalize);
      }
      const bool is_last = k == chunks_ - 1;
      if (is_last) ReplaceOne(chunks_ * kChunkVectors + lane, first, last, normalize);
      FenceForBulkCopies();
      __syncwarp();
      if (lane_ != 0) continue;
      const int begin = max(first, start);
      const int end = is_last ? last : min(last, start + kChunkVectors);
      if (begin < end) StoreBulk(base + begin * kVector, shared_ + begin, (end - begin) * kVectorBytes);
    }
#else
#pragma unroll 4
    for (int vector = lane; vector < last; vector += 32) {
      if (vector < first) continue;
      *reinterpret_cast<uint4*>(base + vector * kVector) = VectorResults<In, true>(shared_[vector], kVector, normalize);
    }
#endif
  }
  // Replaces a lane's vectors of a chunk by their results, those in [first, last). kFull: that is all of them, and
  // their loads need not wait for comparisons.
  template <bool kFull>
  __device__ __forceinline__ void Replace(int start, int first, int last, const Normalizer<C>& normalize) const {
    const auto replace = [&](auto result) {
      uint4 x[kChunkSlots];
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) {
        const int vector = start + j * 32;
        if (kFull || (vector >= first && vector < last)) x[j] = shared_[vector];
      }
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) {
        const int vector = start + j * 32;
        if (kFull || (vector >= first && vector < last)) shared_[vector] = result(x[j]);
      }
    };
    if constexpr (kSparing) {
      WithResults<In>(normalize, replace);
    } else {
      replace([&](const uint4& v) { return VectorResults<In, true>(v, kVector, normalize); });
    }
  }
  __device__ __forceinline__ void ReplaceOne(int vector, int first, int last, const Normalizer<C>& normalize) const {
    if (vector < first || vector >= last) return;
    shared_[vector] = VectorResults<In, true>(shared_[vector], kVector, normalize);
  }
  // The vector at `at`, of which elements [from, end) are stored and those from valid_end on are masked.
  __device__ __forceinline__ void StoreEdge(In* base, int at, int from, int end, int valid_end,
                                            const Normalizer<C>& normalize) const {
    // What was not copied is masked.
    const uint4 y = VectorResults<In, true>(shared_[at / kVector], valid_end - at, normalize);
    StoreRange(base + at, y, from - at, end - at);
  }
  __device__ __forceinline__ void Copy(const In* base, int vector, int first, int whole) const {
    const int at = vector * kVector;
    if (at >= first && at < whole) CopyOne(base, vector);
  }
  __device__ __forceinline__ void CopyOne(const In* base, int vector) const {
    __pipeline_memcpy_async(shared_ + vector, base + vector * kVector, sizeof(uint4));
  }
  // Vectors from the beginning of a 128-byte line to `base`.
  __device__ __forceinline__ static int LineVectors(const In* base) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(base) / kVectorBytes) & 7;
  }
  // Waits for the copies of chunks up to `last`.
  __device__ __forceinline__ static void Wait(int last) {
    static_assert(kMaxChunks == 4, "the cases below");
    const int later = kMaxChunks - 1 - last;
    if (later >= 3) {
      __pipeline_wait_prior(3);
    } else if (later == 2) {
      __pipeline_wait_prior(2);
    } else if (later == 1) {
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
  }
  __device__ __forceinline__ uint4 At(int vector) const {
    const int left = end_ - vector * kVector;
    if (left <= 0) return NothingVector<In>();
    const uint4 v = shared_[vector];
    return left < kVector ? MaskFrom<In>(v, left) : v;
  }

  uint4* shared_ = nullptr;
  int chunks_ = 0;
  int skip_ = 0;
  int end_ = 0;  // elements from the first vector on that count
  int lane_ = static_cast<int>(threadIdx.x) % 32;
};

}  // namespace softmax::kernels::cuda
