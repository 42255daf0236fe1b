#pragma once

#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/columns/copy.cuh"
#include "kernels/cuda/columns/plan.h"
#include "kernels/cuda/core/vectors.cuh"

// What a block of strips/lanes.cuh has in shared memory: columns of some rows, one after the other, as far past a
// 16-byte boundary as in memory. Its rows are numbered from 0 on.
namespace softmax::kernels::cuda {

// kWhole: outer blocks in one piece, or neighbouring columns of one of them, copied in bulk as the aligned vectors that
// they lie in. Elsewhere: a strip.
template <typename In, bool kWhole>
class ColumnTile;

template <typename In>
class ColumnTile<In, true> {
 public:
  // `item`: the block's place among those that share no row. Of the columns from `first` on, `columns`.
  __device__ __forceinline__ ColumnTile(const ColumnParams& params, unsigned item, int first, int columns,
                                        unsigned char* shared)
      : params_(params), shared_(reinterpret_cast<uint4*>(shared)) {
    const DeviceSegment& segment = params.segment;
    const std::int64_t outer = static_cast<std::int64_t>(item) * params.step_parts;
    const std::int64_t past = static_cast<std::int64_t>(first) * segment.inner;
    const std::int64_t left = segment.outer - outer;
    const int parts = left < params.step_parts ? static_cast<int>(left) : params.step_parts;
    rows_ = parts * params.strip;
    part_elements_ = static_cast<int>(segment.cols) * params.strip;
    const In* const input = static_cast<const In*>(segment.input) + outer * segment.input_stride + past;
    output_ = static_cast<In*>(segment.output) + outer * segment.output_stride + past;
    skip_ = Misalignment(input);
    base_ = input - skip_;
    end_ = skip_ + columns * rows_;
    around_ = {past + outer > 0, parts < left || (segment.cols - first - columns) * segment.inner >= kVector};
  }

  __device__ __forceinline__ int rows() const { return rows_; }
  __device__ __forceinline__ In* Row(int row) const {
    const int part = Quotient(row, params_.rows);
    return Elements() + skip_ + part * part_elements_ + (row - part * params_.strip);
  }

  // By the whole block.
  __device__ __forceinline__ void Start(std::uint64_t* barrier) const {
    if (threadIdx.x >= 32) return;
    const auto lane = static_cast<int>(threadIdx.x);
    const int head = around_.before || skip_ == 0 ? 0 : 1;
    const int tail = around_.after ? (end_ + kVector - 1) / kVector : end_ / kVector;
    if (lane == 0) LoadBulk(shared_ + head, base_ + head * kVector, (tail - head) * kVectorBytes, barrier);
    CopyEdges(Elements(), base_, head, tail);
  }
  __device__ __forceinline__ void Wait(std::uint64_t* barrier) const {
    __syncthreads();
    WaitForBulkLoad(barrier);
  }
  // By the whole block, of what its threads have written to shared memory.
  __device__ __forceinline__ void Store() const {
    FenceForBulkCopies();
    __syncthreads();
    if (threadIdx.x >= 32) return;
    In* const base = output_ - skip_;
    const int head = skip_ > 0 ? 1 : 0;
    const int tail = end_ / kVector;
    if (threadIdx.x == 0 && head < tail) {
      StoreBulk(base + head * kVector, shared_ + head, (tail - head) * kVectorBytes);
    }
    CopyEdges(base, Elements(), head, tail);
  }

 private:
  static constexpr int kVector = Element<In>::kVector;

  __device__ __forceinline__ In* Elements() const { return reinterpret_cast<In*>(shared_); }
  // The elements that whole vectors [head, tail) leave out.
  __device__ __forceinline__ void CopyEdges(In* to, const In* from, int head, int tail) const {
    const auto lane = static_cast<int>(threadIdx.x);
    if (head > 0 && lane >= skip_ && lane < min(end_, kVector)) to[lane] = from[lane];
    const int at = tail * kVector + lane;
    if (tail >= head && at < end_) to[at] = from[at];
  }

  const ColumnParams& params_;
  uint4* const shared_;
  const In* base_;
  In* output_;
  int rows_;
  int part_elements_;
  int skip_;  // elements of the first vector that lie before the tile
  int end_;   // counted from that vector's first
  Around around_;
};

template <typename In>
class ColumnTile<In, false> {
 public:
  __device__ __forceinline__ ColumnTile(const ColumnParams& params, unsigned item, int first, int columns,
                                        unsigned char* shared)
      : params_(params), columns_(columns) {
    const DeviceSegment& segment = params.segment;
    const unsigned outer = item / static_cast<unsigned>(params.strips);
    const int strip = static_cast<int>(item - outer * static_cast<unsigned>(params.strips)) * params.strip;
    const std::int64_t past = static_cast<std::int64_t>(first) * segment.inner + strip;
    rows_ = min(params.strip, static_cast<int>(segment.inner) - strip);
    begin_ = static_cast<const In*>(segment.input) + outer * segment.input_stride;
    input_ = begin_ + past;
    output_ = static_cast<In*>(segment.output) + outer * segment.output_stride + past;
    shared_ = shared + reinterpret_cast<std::uintptr_t>(input_) % kVectorBytes;
  }

  __device__ __forceinline__ int rows() const { return rows_; }
  __device__ __forceinline__ In* Row(int row) const { return reinterpret_cast<In*>(shared_) + row; }

  __device__ __forceinline__ void Start(std::uint64_t* /*barrier*/) const {
    const DeviceSegment& segment = params_.segment;
    Lines lines;
    lines.memory = reinterpret_cast<std::uintptr_t>(input_);
    lines.memory_pitch = segment.inner * kSize;
    lines.shared = shared_;
    lines.shared_pitch = params_.pitch;
    lines.side = params_.line_vectors;
    lines.bytes = rows_ * kSize;
    lines.count = columns_;
    ReadLines<In>(lines, reinterpret_cast<std::uintptr_t>(begin_),
                  reinterpret_cast<std::uintptr_t>(begin_ + segment.cols * segment.inner));
    CommitCopies();
  }
  __device__ __forceinline__ void Wait(std::uint64_t* /*barrier*/) const {
    WaitCopiesButLast<0>();
    __syncthreads();
  }
  // Element by element: neighbouring threads meet a sector of memory in one access.
  __device__ __forceinline__ void Store() const {
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int side_log = params_.tasks.side_log;  // of the threads that take a column
    const int side = 32 >> side_log;
    const int first = static_cast<int>(threadIdx.x) / 32 * side + (lane >> side_log);
    const int step = static_cast<int>(blockDim.x) / 32 * side;
    const int pitch = params_.pitch / kSize;
    for (int row = lane & ((1 << side_log) - 1); row < rows_; row += 1 << side_log) {
      const In* from = Row(row) + first * pitch;
      In* to = output_ + first * params_.segment.inner + row;
      int k = first;
#pragma unroll 1
      for (; k + (kAtOnce - 1) * step < columns_; k += kAtOnce * step) {
        In elements[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) elements[i] = from[i * step * pitch];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          *to = elements[i];
          to += step * params_.segment.inner;
        }
        from += kAtOnce * step * pitch;
      }
#pragma unroll 1
      for (; k < columns_; k += step) {
        *to = *from;
        from += step * pitch;
        to += step * params_.segment.inner;
      }
    }
  }

 private:
  static constexpr int kSize = static_cast<int>(sizeof(In));
  static constexpr int kAtOnce = 4;

  const ColumnParams& params_;
  const In* begin_;  // of the outer block
  const In* input_;
  In* output_;
  unsigned char* shared_;  // the first element
  int columns_;
  int rows_;
};

}  // namespace softmax::kernels::cuda
