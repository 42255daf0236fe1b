#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/row_part.cuh"

// Neighbouring chunks of a row, held by a warp in shared memory as the aligned vectors that memory has (see
// row_part.cuh): few registers, so that many bytes can be on their way, and the first chunk can be worked on while the
// last is still coming. Every lane reads only what it has copied itself.
namespace softmax::kernels::cuda {

template <typename In, bool kSkew, bool kLog>
class Slice {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kMaxChunks = 4;
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
  __device__ __forceinline__ void Start(const In* p, std::int64_t n, Around around, int chunks, uint4* shared) {
    Attach(p, n, chunks, shared);
    const In* const base = p - skip_;
    const int first = around.before ? 0 : skip_;
    const int whole = around.after ? end_ : end_ / kVector * kVector;  // vectors that start below it are read whole
#pragma unroll
    for (int k = 0; k < kMaxChunks; ++k) {
      if (k < chunks) {
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) Copy(base, (k * kChunkSlots + j) * 32 + lane_, first, whole);
        if (kSkew && k == chunks - 1 && lane_ == 0) Copy(base, chunks * kChunkVectors, first, whole);
      }
      __pipeline_commit();
    }
    if (first > 0 && lane_ == 0 && end_ > skip_) shared_[0] = LoadRange(base, skip_, min(end_, kVector));
    const int tail = end_ / kVector;
    if (whole < end_ && (tail > 0 || first == 0) && end_ > skip_ && tail % 32 == lane_) {
      shared_[tail] = LoadRange(base + tail * kVector, 0, end_ % kVector);
    }
  }

  // Calls publish(k, statistics) for every chunk, in order, as they arrive. `valid`: the row's columns that count, if
  // the slice begins it.
  template <typename F>
  __device__ __forceinline__ void Reduce(std::int64_t valid, const Scale<C>& scale, F publish) const {
#pragma unroll
    for (int k = 0; k < kMaxChunks; ++k) {
      // A skewed chunk ends in the first vector of the next.
      Wait(k + (kSkew ? 1 : 0));
      if (k < chunks_) publish(k, ChunkStats(k, k == 0 ? valid : kManyColumns, scale));
    }
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
#pragma unroll 4
    for (int at = lane_ * kVector; at < end; at += 32 * kVector) {
      // What was not copied is masked.
      const uint4 raw = shared_[at / kVector];
      const uint4 y = VectorResults<In, true>(raw, valid_end - at, normalize);
      if (at >= from && at + kVector <= end) {
        *reinterpret_cast<uint4*>(base + at) = y;
      } else {
        StoreRange(base + at, y, from - at, end - at);
      }
    }
  }

 private:
  __device__ __forceinline__ void Copy(const In* base, int vector, int first, int whole) const {
    const int at = vector * kVector;
    if (at >= first && at < whole) __pipeline_memcpy_async(shared_ + vector, base + at, sizeof(uint4));
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
  __device__ __forceinline__ Stats<C> ChunkStats(int k, std::int64_t valid, const Scale<C>& scale) const {
    const Lanes lanes{lane_, 32};
    uint4 v[kChunkSlots];
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) {
      const int vector = (k * kChunkSlots + j) * 32 + lane_;
      v[j] = At(vector);
      if constexpr (kSkew) {
        if (lane_ == 0 && skip_ > 0) v[j] = BlendVectors(v[j], At(vector + 32), skip_ * static_cast<int>(sizeof(In)));
      }
    }
    return FirstVectorsStats<In, kChunkSlots, kSkew, kLog, 1>(v, skip_, valid, lanes, scale);
  }

  uint4* shared_ = nullptr;
  int chunks_ = 0;
  int skip_ = 0;
  int end_ = 0;  // elements from the first vector on that count
  int lane_ = static_cast<int>(threadIdx.x) % 32;
};

}  // namespace softmax::kernels::cuda
