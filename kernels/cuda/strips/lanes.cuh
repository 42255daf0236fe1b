#pragma once

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/complete.cuh"
#include "kernels/cuda/blocks/dependent.cuh"
#include "kernels/cuda/columns/exchange.cuh"
#include "kernels/cuda/columns/tile.cuh"
#include "kernels/cuda/core/part.cuh"

// The kernels for rows over another axis whose columns miss the 16-byte boundaries. A tile of them comes to shared
// memory as it lies in memory. Of it a warp takes whole rows, or chunks of them: a thread has the elements of one lane
// of the tree in registers, read one by one, and puts their results back where they were. So warps wait for each other
// only before the first row and after the last one.
namespace softmax::kernels::cuda {

// Which of a lane's slots hold columns.
enum class LaneSlots {
  kAll,
  kButLast,  // all but the last one, which has some
  kAny,
};

// What a thread has of a row, or of a chunk of it: the slots of one lane.
template <typename In, int kSlots, LaneSlots kWhole, bool kLog>
class ColumnLane {
 public:
  using C = ComputeOf<In>;

  // `row`: its first element; `columns`: from there to its end. The lanes of a warp go through the columns of a vector
  // in different orders, so that they read different banks; that only swaps the operands of sums.
  __device__ __forceinline__ ColumnLane(const ColumnParams& params, In* row, int columns, int lanes, int lane)
      : pitch_(params.pitch),
        lanes_(lanes),
        spread_((lane >> params.tasks.spread_shift << params.tasks.spread_scale) & (kVector - 1)),
        left_(columns - lane * kVector),
        tail_(kWhole == LaneSlots::kButLast ? params.tail_places : kVector),
        first_(reinterpret_cast<unsigned char*>(row) + lane * kVector * pitch_) {}

  __device__ __forceinline__ void Load() {
#pragma unroll
    for (int e = 0; e < kVector; ++e) at_[e] = first_ + (e ^ spread_) * pitch_;
    const int step = Step();
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      ForPlaces(s, [&](int e) {
        x_[s][e] = -Infinity<C>();
        if (Holds(s, e)) x_[s][e] = ToCompute(*reinterpret_cast<const In*>(at_[e]));
      });
      if (s == kSlots - 1) break;
#pragma unroll
      for (int e = 0; e < kVector; ++e) at_[e] += step;
    }
  }
  // Of the row, of which `lanes` lanes share a warp; whole warps call it. kKeep: the exponentials stay.
  template <bool kKeep>
  __device__ __forceinline__ Stats<C> Reduce(const Scale<C>& scale) {
    const C mine = Maximum();
    // The usual numbers are known where the loops are compiled.
    const C max = lanes_ == 32 ? LaneMax(mine, 32) : lanes_ == 16 ? LaneMax(mine, 16) : LaneMax(mine, lanes_);
    const ExpBase<C> base(max, scale);
    double sum = 0;
    if (__all_sync(0xffffffffu, base.IsPlain())) {
      sum = Sum<kKeep>([&](C x) { return base.PlainExp(x, scale); });
    } else {
      sum = Sum<kKeep>([&](C x) { return base.Exp(x, scale); });
    }
    sum = lanes_ == 32 ? LaneSum(sum, 32) : lanes_ == 16 ? LaneSum(sum, 16) : LaneSum(sum, lanes_);
    return {max, static_cast<C>(sum * base.correction)};
  }
  // From the elements to the results in shared memory. Once, after Load().
  __device__ __forceinline__ void Write(const Normalizer<C>& row) {
    if constexpr (!kLog) {
      if (row.base.IsPlain()) {
        WriteEach([&](C x) { return row.base.PlainExp(x, row.scale) * row.factor; });
        return;
      }
    } else if constexpr (sizeof(In) == 2) {
      if (row.IsPlain()) {
        WriteEach([&](C x) { return fma(x - row.max, row.scale.plain, -row.factor); });
        return;
      }
    } else if (row.factor == row.factor) {
      // As AnyLogResult() has it, asked once for the row.
      const LogScale<C> scale(row.scale);
      const LogTerms<C> terms(row.base.max_pre, row.factor, row.log_lo);
      WriteEach([&](C x) { return terms.NumberResult(x, scale); });
      return;
    }
    WriteSlowly(row);
  }
  // From the exponentials.
  __device__ __forceinline__ void WriteProducts(C factor) {
    WriteEach([&](C x) { return x * factor; });
  }

 private:
  static constexpr int kVector = Element<In>::kVector;

  static constexpr bool MayBeEmpty(int slot) {
    return kWhole == LaneSlots::kAny || (kWhole == LaneSlots::kButLast && slot == kSlots - 1);
  }
  __device__ __forceinline__ C Maximum() const {
    C max = -Infinity<C>();
    ForElements([&](int s, int e) { max = fmax(max, x_[s][e]); });
    return max;
  }
  template <bool kKeep, typename F>
  __device__ __forceinline__ double Sum(F exp) {
    C sums[kVector] = {};
    ForElements([&](int s, int e) {
      const C y = exp(x_[s][e]);
      sums[e] = s == 0 ? y : sums[e] + y;
      if (kKeep) x_[s][e] = y;
    });
    return PlacesSum(sums);
  }
  // From the last slot, where Load() has left the places, to the first.
  template <typename F>
  __device__ __forceinline__ void WriteEach(F result) {
    const int step = Step();
#pragma unroll
    for (int s = kSlots - 1; s >= 0; --s) {
      ForPlaces(s, [&](int e) {
        if (Holds(s, e)) *reinterpret_cast<In*>(at_[e]) = FromCompute<In, C>(result(x_[s][e]));
      });
#pragma unroll
      for (int e = 0; e < kVector; ++e) at_[e] -= step;
    }
  }
  // In any form, from the elements in shared memory: rarely, so it is not worth registers.
  __device__ __forceinline__ void WriteSlowly(const Normalizer<C>& row) const {
#pragma unroll 1
    for (int s = 0; s < kSlots; ++s) {
#pragma unroll 1
      for (int e = 0; e < kVector; ++e) {
        if (s * lanes_ * kVector + e >= left_) continue;
        In* const p = reinterpret_cast<In*>(first_ + (s * lanes_ * kVector + e) * pitch_);
        C x[1] = {ToCompute(*p)};
        row.template Apply<In, true>(x);
        *p = FromCompute<In, C>(x[0]);
      }
    }
  }
  // From one slot to the next.
  __device__ __forceinline__ int Step() const { return lanes_ * kVector * pitch_; }
  __device__ __forceinline__ bool Holds(int slot, int place) const {
    return !MayBeEmpty(slot) || (place ^ spread_) < left_ - slot * lanes_ * kVector;
  }
  // Calls f for the places of a slot; of the last one for half or few of them if no lane has the others.
  template <typename F>
  __device__ __forceinline__ void ForPlaces(int slot, F f) const {
    const bool may_be_few = kWhole == LaneSlots::kButLast && slot == kSlots - 1;
    f(0);
    if (may_be_few && tail_ == 1) return;
#pragma unroll
    for (int e = 1; e < kVector / 2; ++e) f(e);
    if (may_be_few && tail_ <= kVector / 2) return;
#pragma unroll
    for (int e = kVector / 2; e < kVector; ++e) f(e);
  }
  template <typename F>
  __device__ __forceinline__ void ForElements(F f) const {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) ForPlaces(s, [&](int e) { f(s, e); });
  }

  const int pitch_;  // bytes
  const int lanes_;
  const int spread_;
  const int left_;  // columns from the lane's first on
  const int tail_;  // places of the last slot that some lane has
  unsigned char* const first_;
  unsigned char* at_[kVector];  // the places of a slot
  C x_[kSlots][kVector];
};

// That of the block, which the compiler computes anew what it knows from: a tile is not worth registers meanwhile.
__device__ __forceinline__ unsigned BlockIndex() {
  unsigned index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
}

// Small rows.
template <typename In, int kSlots, bool kLog, bool kWhole>
__global__ void __launch_bounds__(kLanesThreads, kLanesBlocks)
    ColumnLanesKernel(const __grid_constant__ ColumnParams params) {
  using C = ComputeOf<In>;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ std::uint64_t barrier;
  AskAhead<In>(params.segment.input, params.ahead_bytes);
  WaitForEarlierLaunches();
  AllowNextLaunch();
  const auto cols = static_cast<int>(params.segment.cols);
  const ColumnTile<In, kWhole> tile(params, blockIdx.x, 0, cols, shared);
  tile.Start(&barrier);
  AskForLater(params.segment.input, params.ahead_bytes, params.later_blocks);
  const Scale<C> scale(params.scale_float);
  const int lanes = params.tasks.lanes;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const int side = 32 >> params.tasks.warp_lanes_log;  // rows of a warp
  const int mine = static_cast<int>(threadIdx.x) % 32 >> params.tasks.warp_lanes_log;
  const int rows = tile.rows();
  tile.Wait(&barrier);
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x) / 32 * side; first < rows;
       first += static_cast<int>(blockDim.x) / 32 * side) {
    // Whole warps go along.
    In* const row = tile.Row(min(first + mine, rows - 1));
    ColumnLane<In, kSlots, LaneSlots::kButLast, kLog> part(params, row, cols, lanes, lane);
    part.Load();
    const Normalizer<C> done(scale, part.template Reduce<!kLog>(scale), kLog, false);
    __syncwarp();
    if (first + mine >= rows) continue;
    if constexpr (kLog) {
      part.Write(done);
    } else {
      part.WriteProducts(done.factor);
    }
  }
  ColumnTile<In, kWhole>(params, BlockIndex(), 0, cols, shared).Store();
  EndBulkStores(params.completion);
  Complete(params.completion);
}

// Blocks of rows of several chunks that a multiprocessor has to hold: they may have fewer threads than the most.
template <typename In, bool kLog>
constexpr int kChunksBlocks = kLog && sizeof(In) == 4 ? 3 : kLanesBlocks;

// Rows of several chunks, of which each block of a cluster has some.
template <typename In, bool kLog, bool kWhole>
__global__ void __launch_bounds__(ChunksThreads(kLog), (kChunksBlocks<In, kLog>))
    ColumnChunksKernel(const __grid_constant__ ColumnParams params) {
  using C = ComputeOf<In>;
  constexpr int kChunk = Element<In>::kChunk;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ std::uint64_t barriers[2];
  AskAhead<In>(params.segment.input, params.ahead_bytes);
  WaitForEarlierLaunches();
  AllowNextLaunch();
  const int blocks = params.cluster_blocks;
  const unsigned item = blockIdx.x / static_cast<unsigned>(blocks);
  const int rank = static_cast<int>(blockIdx.x - item * static_cast<unsigned>(blocks));
  const int first = rank * params.chunks / blocks;
  const int chunks = (rank + 1) * params.chunks / blocks - first;
  const int columns = min(static_cast<int>(params.segment.cols) - first * kChunk, chunks * kChunk);
  const ColumnTile<In, kWhole> tile(params, item, first * kChunk, columns, shared);
  tile.Start(&barriers[0]);
  AskForLater(params.segment.input, params.ahead_bytes, params.later_blocks);
  const int rows = tile.rows();
  const ClusterExchange exchange(&barriers[1]);
  if (blocks > 1) {
    exchange.Expect(params.chunks * rows * static_cast<int>(sizeof(Stats<C>)));
    ClusterExchange::Arrive();
  }
  auto* const table = reinterpret_cast<Stats<C>*>(shared + params.table_offset);  // of each row's chunks
  auto* const done = reinterpret_cast<Stats<C>*>(shared + params.rows_offset);
  const Scale<C> scale(params.scale_float);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int chunk_elements = kChunk * (params.pitch / static_cast<int>(sizeof(In)));
  const auto for_parts = [&](auto f) {
#pragma unroll 1
    for (int task = warp; task < chunks * params.strip; task += warps) {
      const int chunk = Quotient(task, params.rows);
      const int row = task - chunk * params.strip;
      if (row >= rows) continue;
      In* const p = tile.Row(row) + chunk * chunk_elements;
      const int left = columns - chunk * kChunk;
      if (left >= kChunk) {
        f(first + chunk, row, ColumnLane<In, kChunkSlots, LaneSlots::kAll, kLog>(params, p, left, 32, lane));
      } else {
        f(first + chunk, row, ColumnLane<In, kChunkSlots, LaneSlots::kAny, kLog>(params, p, left, 32, lane));
      }
    }
  };
  tile.Wait(&barriers[0]);
  if (blocks > 1) ClusterExchange::Begin();
  for_parts([&](int chunk, int row, auto part) {
    part.Load();
    const Stats<C> stats = part.template Reduce<false>(scale);
    Stats<C>* const entry = table + row * params.chunks + chunk;
    if (blocks > 1) {
      exchange.SendFromWarp(entry, stats, blocks);
    } else if (lane == 0) {
      *entry = stats;
    }
  });
  if (blocks > 1) {
    exchange.Wait();
  } else {
    __syncthreads();
  }
  for (int row = warp; row < rows; row += warps) {
    const Stats<C> stats = FoldFlat(table + row * params.chunks, params.chunks, lane, scale);
    if (lane == 0) done[row] = stats;
  }
  __syncthreads();
  for_parts([&](int, int row, auto part) {
    part.Load();
    part.Write(Normalizer<C>(scale, done[row], kLog, false));
  });
  ColumnTile<In, kWhole>(params, BlockIndex() / static_cast<unsigned>(blocks), first * kChunk, columns, shared).Store();
  EndBulkStores(params.completion);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
