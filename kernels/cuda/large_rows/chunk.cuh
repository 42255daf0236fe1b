#pragma once

#include "kernels/cuda/blocks/again.cuh"
#include "kernels/cuda/blocks/chunk_table.cuh"
#include "kernels/cuda/blocks/matrix.cuh"
#include "kernels/cuda/large_rows/bulk.h"

// Many rows of a few chunks that begin on boundaries and are whole vectors: a warp for each chunk, in so few registers
// that a multiprocessor has three quarters of its warps. What has to be quick are the last rows of a launch, behind
// which nothing is left to read.
namespace softmax::kernels::cuda {

// A chunk's vectors in a warp. `valid`: elements of the row from the chunk's first on that count.
template <typename In>
class ChunkPart {
 public:
  using C = ComputeOf<In>;
  static constexpr int kVector = Element<In>::kVector;

  __device__ __forceinline__ void Load(const In* p, int valid, int lane) {
    const auto* const vectors = reinterpret_cast<const uint4*>(p) + lane;
    if (IsFull(valid)) {
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) v_[j] = vectors[j * 32];
    } else {
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) {
        v_[j] = NothingVector<In>();
        if (At(j, lane) < valid) v_[j] = vectors[j * 32];
      }
    }
  }
  __device__ __forceinline__ Stats<C> Reduce(int valid, int lane, const Scale<C>& scale) {
    if (!IsFull(valid) && valid % kVector != 0) {
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) v_[j] = MaskFrom<In>(v_[j], valid - At(j, lane));
    }
    const C max = LaneMax(LaneMaximum<In, kChunkSlots, true>(v_, 0, Lanes{lane, 32}), 32);
    const ExpBase<C> base(max, scale);
    C sums[kVector];
    if (IsFull(valid) && base.IsPlain()) {
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) {
        C x[kVector];
        Unpack<In>(v_[j], x);
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          const C y = base.PlainExp(x[e], scale);
          sums[e] = j == 0 ? y : sums[e] + y;
        }
      }
    } else {
      // Slots without columns would change no bit.
#pragma unroll
      for (int e = 0; e < kVector; ++e) sums[e] = 0;
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) {
        if (At(j, 0) >= valid) break;
        C x[kVector];
        Unpack<In>(v_[j], x);
#pragma unroll
        for (int e = 0; e < kVector; ++e) sums[e] += base.Exp(x[e], scale);
      }
    }
    return {max, static_cast<C>(LaneSum(PlacesSum(sums), 32) * base.correction)};
  }
  // The same for a row of few valid columns, whose sum wants more care.
  __device__ __forceinline__ Stats<C> Precise(int lane, const Scale<C>& scale) const {
    return PreciseStats<In, false>(v_, Lanes{lane, 32}, scale);
  }
  // Call it between the statistics and Store().
  __device__ __forceinline__ void Forget() {
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) Opaque(v_[j]);
  }
  // Stores the results of the first n columns as elements of another type. A whole warp calls it.
  template <typename Out>
  __device__ __forceinline__ void StoreMixed(Out* p, int n, int valid, int lane, const Normalizer<C>& normalize) const {
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) {
      if (At(j, 0) >= n) break;
      C x[kVector];
      ComputeResults<In, true>(v_[j], valid - At(j, lane), normalize, x);
      cuda::StoreMixed<In, true, true>(p, At(j, lane), 0, n, x);
    }
  }
  // The same of the input's type.
  template <bool kLog>
  __device__ __forceinline__ void Store(In* p, int n, int valid, int lane, const Normalizer<C>& normalize) const {
    auto* const vectors = reinterpret_cast<uint4*>(p) + lane;
    const bool is_plain = kLog ? sizeof(In) == 2 && normalize.IsPlain() : normalize.base.IsPlain();
    if (is_plain && IsFull(valid)) {
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) vectors[j * 32] = PlainResults<kLog>(v_[j], kVector, normalize);
      return;
    }
    if (kLog && sizeof(In) == 4 && IsFull(valid)) {
#pragma unroll
      for (int j = 0; j < kChunkSlots; ++j) vectors[j * 32] = VectorResults<In, true>(v_[j], kVector, normalize);
      return;
    }
#pragma unroll
    for (int j = 0; j < kChunkSlots; ++j) {
      if (At(j, lane) >= n) continue;
      const int left = valid - At(j, lane);
      // The general form of log-softmax has the plain one in it; beside both there would be too few registers.
      if (!kLog && is_plain) {
        vectors[j * 32] = PlainResults<kLog>(v_[j], left, normalize);
      } else {
        vectors[j * 32] = VectorResults<In, true>(v_[j], left, normalize);
      }
    }
  }

 private:
  __device__ __forceinline__ static bool IsFull(int valid) { return valid >= Element<In>::kChunk; }
  __device__ __forceinline__ static int At(int j, int lane) { return (j * 32 + lane) * kVector; }

  // Of which the first `valid` are not masked.
  template <bool kLog>
  __device__ __forceinline__ static uint4 PlainResults(const uint4& v, int valid, const Normalizer<C>& normalize) {
    C x[kVector];
    Unpack<In>(v, x);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      x[e] = kLog ? fmaf(x[e] - normalize.max, normalize.scale.plain, -normalize.factor)
                  : normalize.base.PlainExp(x[e], normalize.scale) * normalize.factor;
    }
    if (valid < kVector) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (e >= valid) x[e] = normalize.masked;
      }
    }
    return Pack<In>(x);
  }

  uint4 v_[kChunkSlots];
};

// What FoldFlat() gives for at most 16 chunks, in fewer steps.
template <typename C>
__device__ __forceinline__ Stats<C> FoldFew(const Stats<C>* table, int chunks, int lane, const Scale<C>& scale) {
  // Every so many lanes combine the same entries, for themselves.
  const int lanes = chunks <= 2 ? 2 : chunks <= 4 ? 4 : chunks <= 8 ? 8 : 16;
  const int entry = lane & (lanes - 1);
  const Stats<C> mine = entry < chunks ? table[entry] : NoStats<C>();
  const C max = LaneMax(mine.max, 32);
  double sum = mine.sum * static_cast<double>(scale.Exp(mine.max, MaxPre(max, scale)));
#pragma unroll
  for (int offset = 8; offset > 0; offset >>= 1) {
    if (offset < lanes) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  return {max, static_cast<C>(sum)};
}

// The chunk of a thread's warp.
struct ChunkPlace {
  static constexpr int kSides = 4;  // rows of a block, at most

  int lane;
  int side;  // the row within the block
  int chunk;
  std::int64_t row;

  __device__ __forceinline__ ChunkPlace(int thread, const MatrixParams& params)
      : lane(thread % 32), side(0), chunk(thread / 32) {
#pragma unroll
    for (int i = 1; i < kSides; ++i) side += thread / 32 >= i * params.warps ? 1 : 0;
    chunk -= side * params.warps;
    row = static_cast<std::int64_t>(blockIdx.x) * params.rows_per_block + side;
  }
};

// A barrier of the warps that share a row. Its number is a constant, or a block would take all the barriers there are.
template <int kSides = ChunkPlace::kSides>
__device__ __forceinline__ void SyncSide(int side, int warps) {
  if (kSides == 1 || side == kSides - 1) {
    asm volatile("bar.sync %0, %1;" ::"n"(kSides), "r"(warps * 32) : "memory");
  } else if constexpr (kSides > 1) {
    SyncSide<kSides - 1>(side, warps);
  }
}

// Blocks of the largest size that a multiprocessor has to hold: 40 registers are left to a thread, or 56.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kChunkBlocks = 2;  // 1024 threads are all there can be
#else
constexpr int kChunkBlocks = 3;
#endif

// To store other types takes more registers: 64 are left to a thread.
constexpr int kMixedThreads = 1024;  // of a multiprocessor

// A block takes several rows side by side where they are short.
template <typename In, bool kLog, bool kMixed>
__global__ void __launch_bounds__(32 * ChunkWarps(kLog),
                                  kMixed ? kMixedThreads / (32 * ChunkWarps(kLog)) : kChunkBlocks)
    ChunkMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  constexpr int kChunk = Element<In>::kChunk;
  const bool log = kMixed ? params.log : kLog;
  __shared__ Stats<C> entries[ChunkWarps(kLog)];
  const Scale<C> scale = ScaleOf<C>(params);
  const ChunkPlace first(static_cast<int>(threadIdx.x), params);
  const int first_column = first.chunk * kChunk;
  const In* const input = static_cast<const In*>(params.input) + first.row * params.input_stride + first_column;
  AskAhead<In>(params);
  BeginAccess(params);
  if (first.row < params.rows) {
    const auto valid = static_cast<int>(ValidLength(params, first.row));
    ChunkPart<In> part;
    part.Load(input, valid - first_column, first.lane);
    Stats<C> stats = part.Reduce(valid - first_column, first.lane, scale);
    if (log && first_column == 0 && valid <= kPreciseColumns) stats = part.Precise(first.lane, scale);
    Stats<C>* const table = entries + first.side * params.chunks;
    if (first.lane == 0) table[first.chunk] = stats;
    SyncSide(first.side, params.warps);
    stats = FoldFew(table, params.chunks, first.lane, scale);
    part.Forget();
    const Normalizer<C> normalize(scale, stats, log, valid == 0);
    const ChunkPlace place(ThreadAgain(), params);
    const int column = place.chunk * kChunk;
    const auto n = static_cast<int>(params.cols) - column;
    ForOutput<In, kMixed>(params, place.row, [&](auto* output) {
      if constexpr (kMixed) {
        part.StoreMixed(output + column, n, valid - column, place.lane, normalize);
      } else {
        part.template Store<kLog>(output + column, n, valid - column, place.lane, normalize);
      }
    });
  }
  Complete(params.completion);
}

// Rows of more chunks than a block has warps: the same in the blocks of a cluster.

// The chunk of a thread's warp there.
struct ClusterPlace {
  int lane;
  int chunk;
  std::int64_t row;

  __device__ __forceinline__ explicit ClusterPlace(const MatrixParams& params) {
    const int thread = ThreadAgain();
    lane = thread % 32;
    chunk = RankAgain() * params.warps + thread / 32;
    row = BlockAgain() / static_cast<std::uint32_t>(params.cluster_blocks);
  }
};

// Blocks that a multiprocessor has to hold: 40 registers are left to a thread, or 48.
constexpr int ClusterBlocks(int warps) { return BlocksThatFit(32 * warps, warps > 8 ? 3 : 5); }

template <typename In, bool kLog>
__global__ void __launch_bounds__(32 * ClusterWarps(sizeof(In), kLog), ClusterBlocks(ClusterWarps(sizeof(In), kLog)))
    ClusterMatrixKernel(const __grid_constant__ MatrixParams params) {
  using C = ComputeOf<In>;
  constexpr int kChunk = Element<In>::kChunk;
  __shared__ Stats<C> entries[ClusterWarps(sizeof(In), kLog) * kLargeClusterBlocks];
  __shared__ typename ChunkTable<C>::Control control;
  const Scale<C> scale = ScaleOf<C>(params);
  const ChunkTable<C> table(entries, &control, Team{params.cluster_blocks});
  table.Arrive(params.chunks);
  AskAhead<In>(params);
  BeginAccess(params);
  ChunkPart<In> part;
  {
    const ClusterPlace place(params);
    const int column = place.chunk * kChunk;
    const auto valid = static_cast<int>(ValidLength(params, place.row));
    part.Load(static_cast<const In*>(params.input) + place.row * params.input_stride + column, valid - column,
              place.lane);
    Stats<C> stats = part.Reduce(valid - column, place.lane, scale);
    if (kLog && place.chunk == 0 && valid <= kPreciseColumns) stats = part.Precise(place.lane, scale);
    table.Begin();
    if (place.chunk < params.chunks) table.Publish(place.chunk, stats);
  }
  const Stats<C> stats = table.Fold(0, params.chunks, scale);
  part.Forget();
  const ClusterPlace place(params);
  const auto valid = static_cast<int>(ValidLength(params, place.row));
  const int column = place.chunk * kChunk;
  if (column < params.cols) {
    const Normalizer<C> normalize(scale, stats, kLog, valid == 0);
    part.template Store<kLog>(static_cast<In*>(params.output) + place.row * params.output_stride + column,
                              static_cast<int>(params.cols) - column, valid - column, place.lane, normalize);
  }
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
