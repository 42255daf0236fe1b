#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/row_part.cuh"

// Neighbouring chunks of a row, held by a warp in shared memory as the aligned vectors that memory has (see
// row_part.cuh): few registers, so that many bytes can be on their way, and the first chunk can be worked on while the
// last is still coming.
namespace softmax::kernels::cuda {

template <typename In, bool kSkew, bool kLog, int kMost = 4>
class Slice {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kMaxChunks = kMost;
  static constexpr int kChunkVectors = kChunkSlots * 32;

  // Vectors of shared memory that a slice of so many chunks takes.
  static SOFTMAX_HOST_DEVICE constexpr int Vectors(int chunks) { return chunks * kChunkVectors + 1; }

  // Names the place of a slice whose copy is in `shared` already.
  __device__ __forceinline__ void Attach(const In* p, std::int64_t n, int chunks, uint4* shared) {
    shared_ = shared;
    chunks_ = chunks;
    skip_ = kSkew ? Misalignment(p) : 0;
    const int most = (chunks * kChunkVectors + (kSkew ? 1 : 0)) * kVector;
    const std::int64_t end = n + skip_;
    end_ = end <= 0 ? 0 : end < most ? static_cast<int>(end) : most;
  }

  // Starts the copy. `p`: the first column; `n`: columns from there to the end of what counts; `chunks` <= kMaxChunks.
  // The lanes begin on a 128-byte line, so that each access of the warp touches four of them and no fifth.
  __device__ __forceinline__ void Start(const In* p, std::int64_t n, Around around, int chunks, uint4* shared) {
    __syncwarp();  // what the slice held before has been read by all
    Attach(p, n, chunks, shared);
    const In* const base = p - skip_;
    const int first = around.before ? 0 : skip_;
    const int whole = around.after ? end_ : end_ / kVector * kVector;  // vectors that start below it are read whole
    const int lane = lane_ - LineVectors(base);
#pragma unroll
    for (int k = 0; k < kMaxChunks; ++k) {
      if (k < chunks) {
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) Copy(base, (k * kChunkSlots + j) * 32 + lane, first, whole);
        if (k == chunks - 1) Copy(base, chunks * kChunkVectors + lane, first, whole);
      }
      __pipeline_commit();
    }
    if (first > 0 && lane_ == 0 && end_ > skip_) shared_[0] = LoadRange(base, skip_, min(end_, kVector));
    const int tail = end_ / kVector;
    if (whole < end_ && (tail > 0 || first == 0) && end_ > skip_ && lane_ == 31) {
      shared_[tail] = LoadRange(base + tail * kVector, 0, end_ % kVector);
    }
  }

  // Calls publish(k, statistics) for every chunk, in order, as they arrive. `valid`: the row's columns that count, if
  // the slice begins it.
  template <typename F>
  __device__ __forceinline__ void Reduce(const In* p, std::int64_t valid, const Scale<C>& scale, F publish) const {
    const bool on_line = LineVectors(p - skip_) == 0;
#pragma unroll
    for (int k = 0; k < kMaxChunks; ++k) {
      // Other chunks end in what is copied with the next one.
      if (kSkew || !on_line) {
        Wait(k + 1);
      } else {
        Wait(k);
      }
      __syncwarp();
      if (k < chunks_) publish(k, AnyChunkStats(k, k == 0 ? valid : kManyColumns, scale));
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
    constexpr int kCount = kSlots + (kSkew ? 1 : 0);
    const int first = k * kChunkVectors;
    uint4 w[kCount];
    if (end_ >= (first + kSlots * 32 + (kSkew ? 1 : 0)) * kVector) {
#pragma unroll
      for (int j = 0; j < kSlots; ++j) w[j] = shared_[first + j * 32 + lane_];
      if constexpr (kSkew) w[kSlots] = shared_[first + kSlots * 32];
    } else {
#pragma unroll
      for (int j = 0; j < kSlots; ++j) w[j] = At(first + j * 32 + lane_);
      if constexpr (kSkew) w[kSlots] = At(first + kSlots * 32);
    }
    uint4 v[kSlots];
    const BlendMask mask(kSkew && lane_ == 0 ? skip_ * static_cast<int>(sizeof(In)) : 0);
#pragma unroll
    for (int j = 0; j < kSlots; ++j) v[j] = kSkew ? mask.Blend(w[j], w[j + (kSkew ? 1 : 0)]) : w[j];
    return FirstVectorsStats<In, kSlots, kSkew, kLog, 1>(v, skip_, valid, Lanes{lane_, 32}, scale);
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
    const int lane = lane_ - LineVectors(base);
#pragma unroll 4
    for (int at = lane * kVector; at < body; at += 32 * kVector) {
      if (at < from) continue;
      *reinterpret_cast<uint4*>(base + at) = VectorResults<In, true>(shared_[at / kVector], kVector, normalize);
    }
    if (from > 0 && lane_ == 0 && body > 0) StoreEdge(base, 0, from, end, valid_end, normalize);
    for (int at = body + lane_ * kVector; at < end; at += 32 * kVector) {
      StoreEdge(base, at, from, end, valid_end, normalize);
    }
  }

 private:
  // The vector at `at`, of which elements [from, end) are stored and those from valid_end on are masked.
  __device__ __forceinline__ void StoreEdge(In* base, int at, int from, int end, int valid_end,
                                            const Normalizer<C>& normalize) const {
    // What was not copied is masked.
    const uint4 y = VectorResults<In, true>(shared_[at / kVector], valid_end - at, normalize);
    StoreRange(base + at, y, from - at, end - at);
  }
  __device__ __forceinline__ void Copy(const In* base, int vector, int first, int whole) const {
    const int at = vector * kVector;
    if (at >= first && at < whole) __pipeline_memcpy_async(shared_ + vector, base + at, sizeof(uint4));
  }
  // Vectors from the beginning of a 128-byte line to `base`.
  __device__ __forceinline__ static int LineVectors(const In* base) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(base) / kVectorBytes) & 7;
  }
  // Waits for the copies of chunks up to `last`, a constant once unrolled.
  __device__ __forceinline__ static void Wait(int last) {
    __pipeline_wait_prior(last >= kMaxChunks - 1 ? 0 : kMaxChunks - 1 - last);
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
