#pragma once

#include "kernels/cuda/bulk.cuh"
#include "kernels/cuda/complete.cuh"
#include "kernels/cuda/matrix_small.cuh"
#include "kernels/cuda/single.h"

// Rows of doubles, element by element, a few threads per row: neighbouring threads have neighbouring elements, so no
// access is worse for where the row begins, and there is nothing to shift or to blend. A thread stands for several of
// the lanes that would share the row elsewhere, so what belongs to the row and not to its elements is done for several
// rows at a time.
namespace softmax::kernels::cuda {

// Columns kThreads apart belong to other lanes of the kLanes that would share the row, or to another place in a lane's
// vectors: as many of them as a thread keeps sums for.
template <int kThreads, int kLanes>
constexpr int kSingleClasses = 2 * kLanes / kThreads;

// The sum of all threads' sums, as LaneSum() of PlacesSum() would add them up: neighbouring columns first, then by
// halves.
template <int kThreads, int kClasses>
__device__ __forceinline__ double SinglesSum(double (&sums)[kClasses]) {
#pragma unroll
  for (int i = 0; i < kClasses; ++i) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 1);
#pragma unroll
  for (int half = kClasses / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  double sum = sums[0];
#pragma unroll
  for (int offset = kThreads / 2; offset > 1; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return sum;
}

// Small rows, in registers. Of a row's columns each thread has every kThreads-th, at most kElements, of which kSure are
// sure to be in the row.
template <int kElements, int kSure, int kThreads, int kLanes, bool kLog>
class SingleRow {
 public:
  using C = double;
  static constexpr int kClasses = kSingleClasses<kThreads, kLanes>;
  static_assert(kThreads >= 8, "a thread has one of the columns of PreciseSinglesSum()");

  __device__ __forceinline__ void Load(const C* row, int valid, int thread) {
    row += thread;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      x_[i] = -Infinity<C>();
      if (i * kThreads + thread < valid) x_[i] = row[i * kThreads];
    }
  }
  // The row's statistics. Softmax keeps the exponentials in place of the elements.
  __device__ __forceinline__ Stats<C> Reduce(int cols, int valid, int thread, const Scale<C>& scale) {
    C max = -Infinity<C>();
#pragma unroll
    for (int i = 0; i < kElements; ++i) max = Larger(max, x_[i]);
    max = LaneMax(max, kThreads);
    const ExpBase<C> base(max, scale);
    C sums[kClasses] = {};
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (IsSkipped(i, cols)) continue;
      const C y = base.Exp(x_[i], scale);
      sums[i % kClasses] = i < kClasses ? y : sums[i % kClasses] + y;
      if constexpr (!kLog) x_[i] = y;
    }
    Stats<C> stats{max, SinglesSum<kThreads>(sums)};
    if constexpr (kLog) {
      const bool precise = valid <= kPreciseColumns;
      if (__any_sync(0xffffffffu, precise)) {
        const C better = PreciseSinglesSum(x_[0], max, Lanes{thread, kThreads}, scale);
        if (precise) stats.sum = better;
      }
    }
    return stats;
  }
  __device__ __forceinline__ void Store(C* row, int cols, int valid, int thread, const Normalizer<C>& normalize) {
    row += thread;
    const bool is_nan = kLog && normalize.factor != normalize.factor;  // see AnyLogResult()
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (IsSkipped(i, cols)) continue;
      if constexpr (kLog) {
        const C y = LogResult(x_[i], normalize.scale, normalize.base.max_pre, normalize.factor, normalize.log_lo);
        x_[i] = is_nan ? C(NAN) : y;
      } else {
        x_[i] *= normalize.factor;
      }
    }
    // All results first: their stores then follow each other, and fill sectors together.
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const int at = i * kThreads + thread;
      if (at < cols) row[i * kThreads] = at < valid ? x_[i] : normalize.masked;
    }
  }

 private:
  __device__ __forceinline__ static bool IsSkipped(int i, int cols) { return i >= kSure && i * kThreads >= cols; }

  C x_[kElements];
};

template <int kElements, int kSure, int kThreads, int kLanes, bool kLog>
__global__ void __launch_bounds__(kMatrixThreads) SingleMatrixKernel(const __grid_constant__ MatrixParams params) {
  const Scale<double> scale = ScaleOf<double>(params);
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const auto cols = static_cast<int>(params.cols);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kMatrixThreads / kThreads) + threadIdx.x / kThreads;
  SingleRow<kElements, kSure, kThreads, kLanes, kLog> single;
  BeginAccess(params);
  // Threads without a row go along with an empty one: the shuffles need whole warps.
  const int valid = row < params.rows ? static_cast<int>(ValidLength(params, row)) : 0;
  single.Load(static_cast<const double*>(params.input) + row * params.input_stride, valid, thread);
  const Stats<double> stats = single.Reduce(cols, valid, thread, scale);
  if (row < params.rows) {
    const Normalizer<double> normalize(scale, stats, kLog, valid == 0);
    single.Store(static_cast<double*>(params.output) + row * params.output_stride, cols, valid, thread, normalize);
  }
  Complete(params.completion);
}

// Rows of two chunks, half a warp each, in shared memory, copied there and back in bulk as the aligned vectors that
// memory has.
template <bool kLog>
class SinglePair {
 public:
  using C = double;
  static constexpr int kThreads = kPairThreads;
  static constexpr int kChunk = Element<C>::kChunk;
  static constexpr int kClasses = kSingleClasses<kThreads, 32>;

  __device__ __forceinline__ SinglePair(const C* input, int cols, int valid, C* shared)
      : skip_(Misalignment(input)), base_(input - skip_), shared_(shared), cols_(cols), valid_(valid) {}

  // Starts the copy of what may be read in whole vectors, and makes the others.
  __device__ __forceinline__ void Start(Around around, std::uint64_t* barrier) const {
    const int end = valid_ > 0 ? valid_ + skip_ : 0;
    const int first = around.before || skip_ == 0 ? 0 : 1;
    const int last = around.after ? (end + 1) / 2 : end / 2;
    if (thread_ == 0) LoadBulk(shared_ + first * 2, base_ + first * 2, (last - first) * kVectorBytes, barrier);
    if (thread_ == 1 && first > 0 && end > 1) shared_[1] = base_[1];
    if (thread_ == 2 && last >= first && last * 2 < end) shared_[last * 2] = base_[last * 2];
  }
  // The row's statistics, once the copy is there.
  __device__ __forceinline__ Stats<C> Reduce(const Scale<C>& scale) const {
    Stats<C> first = ChunkStats(0, scale);
    if constexpr (kLog) {
      const bool precise = valid_ <= kPreciseColumns;
      if (__any_sync(0xffffffffu, precise)) {
        const C better = PreciseSinglesSum(At(thread_), first.max, Lanes{thread_, kThreads}, scale);
        if (precise) first.sum = better;
      }
    }
    const Stats<C> second = ChunkStats(kChunk, scale);
    // As FoldFlat() folds two.
    return CombineLanes((thread_ & 1) == 0 ? first : second, scale, 2);
  }
  // Replaces the row by its results.
  __device__ __forceinline__ void Replace(const Normalizer<C>& normalize) const {
    const bool is_nan = kLog && normalize.factor != normalize.factor;  // see AnyLogResult()
    ForEach(
        0, cols_,
        [&](int, int at) {
          if constexpr (kLog) {
            const C y = LogResult(At(at), normalize.scale, normalize.base.max_pre, normalize.factor, normalize.log_lo);
            return is_nan ? C(NAN) : y;
          } else {
            return normalize.base.Exp(At(at), normalize.scale) * normalize.factor;
          }
        },
        [&](int, int at, C y) {
          if (at < cols_) shared_[skip_ + at] = at < valid_ ? y : normalize.masked;
        });
  }
  // Stores what Replace() has made.
  __device__ __forceinline__ void Store(C* output) const {
    C* const base = output - skip_;
    const int end = cols_ + skip_;
    if (thread_ == 0) StoreBulk(base + skip_ * 2, shared_ + skip_ * 2, (end / 2 - skip_) * kVectorBytes);
    if (thread_ == 1 && skip_ != 0) base[1] = shared_[1];
    if (thread_ == 2 && end % 2 != 0) base[end - 1] = shared_[end - 1];
  }

 private:
  __device__ __forceinline__ C At(int column) const {
    return column < valid_ ? shared_[skip_ + column] : -Infinity<C>();
  }
  // Calls use(i, column, make(i, column)) for the thread's columns of [from, end), i counting them modulo kClasses.
  template <typename F, typename G>
  __device__ __forceinline__ void ForEach(int from, int end, F make, G use) const {
    int at = from + thread_;
#pragma unroll 1
    for (; from + kClasses * kThreads <= end; from += kClasses * kThreads, at += kClasses * kThreads) {
      C y[kClasses];
#pragma unroll
      for (int i = 0; i < kClasses; ++i) y[i] = make(i, at + i * kThreads);
#pragma unroll
      for (int i = 0; i < kClasses; ++i) use(i, at + i * kThreads, y[i]);
    }
#pragma unroll
    for (int i = 0; i < kClasses; ++i) {
      if (from + i * kThreads < end) use(i, at + i * kThreads, make(i, at + i * kThreads));
    }
  }
  __device__ __forceinline__ Stats<C> ChunkStats(int from, const Scale<C>& scale) const {
    const int end = min(cols_, from + kChunk);
    C max = -Infinity<C>();
    ForEach(
        from, end, [&](int, int at) { return At(at); }, [&](int, int, C x) { max = Larger(max, x); });
    max = LaneMax(max, kThreads);
    const ExpBase<C> base(max, scale);
    C sums[kClasses] = {};
    ForEach(
        from, end, [&](int, int at) { return base.Exp(At(at), scale); }, [&](int i, int, C y) { sums[i] += y; });
    return {max, SinglesSum<kThreads>(sums)};
  }

  int skip_;
  const C* base_;
  C* shared_;
  int cols_;
  int valid_;
  int thread_ = static_cast<int>(threadIdx.x) % kThreads;
};

template <bool kLog>
__global__ void __launch_bounds__(kMatrixThreads, 4) SinglePairKernel(const __grid_constant__ MatrixParams params) {
  extern __shared__ __align__(128) unsigned char dynamic[];
  constexpr int kRows = kMatrixThreads / kPairThreads;
  __shared__ std::uint64_t barriers[kRows];
  const Scale<double> scale = ScaleOf<double>(params);
  const int side = static_cast<int>(threadIdx.x) / kPairThreads;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRows + side;
  const bool active = row < params.rows;
  BeginAccess(params);
  const int valid = active ? static_cast<int>(ValidLength(params, row)) : 0;
  const auto cols = static_cast<int>(params.cols);
  const double* const input = static_cast<const double*>(params.input) + (active ? row : 0) * params.input_stride;
  const SinglePair<kLog> pair(input, cols, valid, reinterpret_cast<double*>(dynamic) + side * params.warp_vectors * 2);
  pair.Start(active ? AroundOf<double>(params, row, 0, valid) : Around{false, false}, barriers + side);
  __syncwarp();
  WaitForBulkLoad(barriers + side);
  __syncwarp();
  const Stats<double> stats = pair.Reduce(scale);
  const Normalizer<double> normalize(scale, stats, kLog, valid == 0);
  pair.Replace(normalize);
  FenceForBulkCopies();
  __syncwarp();
  if (active) pair.Store(static_cast<double*>(params.output) + row * params.output_stride);
  EndBulkStores(params.completion);
  Complete(params.completion);
}

template <int kSize, bool kLog>
const void* SingleMatrix() {
  constexpr SingleSize kThis = kSingleSizes[kSize];
  constexpr int kFewer = kSize == 0 ? kSingleLeast - 1 : kSingleSizes[kSize == 0 ? 0 : kSize - 1].Columns();
  static_assert(RowLanes(kFewer + 1, 8) == kThis.lanes && RowLanes(kThis.Columns(), 8) == kThis.lanes);
  return reinterpret_cast<const void*>(
      &SingleMatrixKernel<kThis.elements, kFewer / kThis.threads, kThis.threads, kThis.lanes, kLog>);
}

}  // namespace softmax::kernels::cuda
