#pragma once

#include "kernels/cuda/batch.h"
#include "kernels/cuda/complete.cuh"
#include "kernels/cuda/matrix_small.cuh"
#include "kernels/cuda/slice.cuh"
#include "kernels/cuda/team.cuh"

// The kernel for batches (batch.h). Small rows go through registers, a group of lanes each; the chunks of large ones go
// through shared memory, dealt out evenly to the warps of the block or cluster.
namespace softmax::kernels::cuda {

// The segment of a unit's table that holds a row.
__device__ __forceinline__ int FindRow(const BatchSegment* segments, int count, std::uint32_t row) {
  int begin = 0;
  while (count > 1) {
    const int half = count / 2;
    if (segments[begin + half].first_row <= row) begin += half;
    count -= half;
  }
  return begin;
}

// A row of a segment.
template <typename In>
struct BatchRow {
  const BatchSegment& segment;
  std::int64_t row;
  std::int64_t input_stride;
  std::int64_t output_stride;
  std::int64_t valid;

  __device__ __forceinline__ BatchRow(const BatchParams& params, const BatchSegment& holder, std::uint32_t global_row)
      : segment(holder),
        row(global_row - holder.first_row),
        input_stride(holder.cols),
        output_stride(holder.cols),
        valid(holder.cols) {
    if (holder.extra == 0) return;
    const std::uint32_t index = holder.extra - 1;
    const BatchExtra extra = params.extras != nullptr ? params.extras[index] : params.inline_extras[index];
    input_stride = extra.input_stride;
    output_stride = extra.output_stride;
    if (extra.lengths != nullptr) valid = min(extra.lengths[row], holder.cols);
  }
  __device__ __forceinline__ const In* Input(std::int64_t column) const {
    return static_cast<const In*>(segment.input) + row * input_stride + column;
  }
  __device__ __forceinline__ In* Output(std::int64_t column) const {
    return static_cast<In*>(segment.output) + row * output_stride + column;
  }
  // What may be read around the row's elements from `column` on.
  __device__ __forceinline__ Around AroundFrom(std::int64_t column) const {
    const std::int64_t before = row * input_stride + column;
    const std::int64_t after = (segment.rows - 1 - row) * input_stride + segment.cols - valid;
    return {before >= Element<In>::kVector, after >= Element<In>::kVector};
  }
};

template <typename In, bool kSkew, bool kLog, int kSlots>
__device__ __forceinline__ void RunSmallUnit(const BatchParams& params, const BatchUnit& unit,
                                             const BatchSegment* segments, const Scale<ComputeOf<In>>& scale) {
  const Lanes lanes{static_cast<int>(threadIdx.x) & (unit.lanes - 1), unit.lanes};
  const int groups = kBatchThreads / unit.lanes;
  for (int first = 0; first < unit.rows; first += groups) {
    const int mine = first + static_cast<int>(threadIdx.x) / unit.lanes;
    // Lanes without a row go along with an empty one: the shuffles need whole warps.
    const bool active = mine < unit.rows;
    const std::uint32_t global = unit.first_row + (active ? mine : 0);
    const BatchRow<In> row(params, segments[FindRow(segments, unit.segments, global)], global);
    const int valid = active ? static_cast<int>(row.valid) : 0;
    RowPart<In, kSlots, kSkew> part;
    part.Load(part.PlaceOf(row.Input(0), valid, row.AroundFrom(0), lanes), lanes);
    const auto stats = part.template FirstStats<kSlots, kLog, kSlots <= 2>(valid, lanes, scale);
    part.Forget();
    if (!active) continue;
    const Normalizer<ComputeOf<In>> normalize(scale, stats, kLog, valid == 0);
    part.Store(row.Output(0), row.segment.cols, valid, true, lanes, normalize);
  }
}

// Waits for the copies up to group i of kWarpPieces, after which one more group was started.
__device__ __forceinline__ void WaitForPiece(int i) {
  static_assert(kWarpPieces == 4, "the cases below");
  if (i == 0) __pipeline_wait_prior(4);
  if (i == 1) __pipeline_wait_prior(3);
  if (i == 2) __pipeline_wait_prior(2);
  if (i == 3) __pipeline_wait_prior(1);
  __syncwarp();  // the lanes copied for each other
}

// Small rows that are two chunks wide: a warp each, through shared memory, as registers would not hold them.
template <typename In, bool kSkew, bool kLog, typename F>
__device__ __forceinline__ void RunDoubleUnit(const BatchParams& params, const BatchUnit& unit,
                                              const BatchSegment* segments, uint4* shared,
                                              const Scale<ComputeOf<In>>& scale, F fetch_next) {
  using Row = Slice<In, kSkew, kLog, 2, true>;
  constexpr int kWarpRows = kWarpPieces / 2;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto row_of = [&](int r) {
    const std::uint32_t global = unit.first_row + r;
    return BatchRow<In>(params, segments[FindRow(segments, unit.segments, global)], global);
  };
  const auto place_of = [&](int r) { return shared + r * 2 * kPieceVectors; };
#pragma unroll 1
  for (int i = 0; i < kWarpRows; ++i) {
    const int r = warp + i * kBlockWarps;
    if (r >= unit.rows) break;
    const BatchRow<In> row = row_of(r);
    Row slice;
    slice.Start(row.Input(0), row.valid, row.AroundFrom(0), 2, place_of(r));
  }
  for (int started = (unit.rows - warp + kBlockWarps - 1) / kBlockWarps; started < kWarpRows; ++started) {
    __pipeline_commit();
    __pipeline_commit();
  }
  fetch_next();
#pragma unroll 1
  for (int i = 0; i < kWarpRows; ++i) {
    const int r = warp + i * kBlockWarps;
    if (r >= unit.rows) break;
    WaitForPiece(2 * i + 1);
    const BatchRow<In> row = row_of(r);
    Row slice;
    slice.Attach(row.Input(0), row.valid, 2, place_of(r));
    const auto stats = slice.template ChunkStats<2 * kChunkSlots>(0, row.valid, scale);
    const Normalizer<ComputeOf<In>> normalize(scale, stats, kLog, row.valid == 0);
    slice.Store(row.Output(0), row.segment.cols, row.valid, true, normalize);
  }
}

// Large rows: one chunk is a piece. Lane r of every warp knows row r of the unit.
template <typename In, bool kSkew, bool kLog>
class LargeUnit {
 public:
  using C = ComputeOf<In>;
  using Pieces = Slice<In, kSkew, kLog, kWarpPieces, true>;

  // `table`: statistics of the rows' chunks, one after another. A cluster's blocks hold equal parts of one row.
  __device__ __forceinline__ LargeUnit(const BatchParams& params, const BatchUnit& unit, const BatchSegment* segments,
                                       Team team, Stats<C>* table, uint4* shared)
      : params_(params), unit_(unit), segments_(segments), team_(team), table_(table), shared_(shared) {
    if (lane_ < unit.rows) {
      segment_ = FindRow(segments, unit.segments, unit.first_row + lane_);
      chunks_ = static_cast<int>((segments[segment_].cols + Element<In>::kChunk - 1) / Element<In>::kChunk);
    }
    end_ = chunks_;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, end_, step);
      if (lane_ >= step) end_ += before;
    }
    const int all = __shfl_sync(0xffffffffu, end_, 31);
    const int block_pieces = (all + team.blocks - 1) / team.blocks;
    each_ = (block_pieces + kBlockWarps - 1) / kBlockWarps;
    local_ = static_cast<int>(threadIdx.x) / 32 * each_;
    first_ = team.Rank() * block_pieces + local_;
    last_ = min(min(first_ + each_, team.Rank() * block_pieces + block_pieces), all);
  }

  // Starts the copies: the warp's pieces of one row, its run, are a slice.
  __device__ __forceinline__ void Start() const {
    ForRuns([&](const Run& run, const BatchRow<In>& row) {
      Pieces slice;
      slice.Start(row.Input(run.column), row.valid - run.column, row.AroundFrom(run.column), run.count,
                  SharedOf(run.piece));
    });
  }

  // After Start and one more group of copies.
  __device__ __forceinline__ void Finish(const Scale<C>& scale) const {
    __pipeline_wait_prior(1);
    ForRuns([&](const Run& run, const BatchRow<In>& row) {
      Attached(row, run).ReduceAfter(
          [](int) {}, run.column == 0 ? row.valid : kManyColumns, scale,
          [&](int k, const Stats<C>& stats) { team_.Publish(table_ + run.piece + k, stats); });
    });
    team_.Sync();
    ForRuns([&](const Run& run, const BatchRow<In>& row) {
      const Stats<C> stats = FoldFlat(table_ + run.first, run.chunks, lane_, scale);
      const Normalizer<C> normalize(scale, stats, kLog, row.valid == 0);
      Attached(row, run).Store(row.Output(run.column), row.segment.cols - run.column, row.valid - run.column,
                               run.column == 0, normalize);
    });
  }

 private:
  // Neighbouring pieces of one row that a warp holds.
  struct Run {
    int piece;  // the first one, and how many
    int count;
    int first;  // piece of the row, and how many it has
    int chunks;
    std::int64_t column;
  };

  template <typename F>
  __device__ __forceinline__ void ForRuns(F f) const {
#pragma unroll 1
    for (int piece = first_; piece < last_;) {
      const unsigned later = __ballot_sync(0xffffffffu, end_ > piece);
      const int row = __ffs(static_cast<int>(later)) - 1;
      const int segment = __shfl_sync(0xffffffffu, segment_, row);
      const int end = __shfl_sync(0xffffffffu, end_, row);
      Run run;
      run.piece = piece;
      run.count = min(end, last_) - piece;
      run.chunks = __shfl_sync(0xffffffffu, chunks_, row);
      run.first = end - run.chunks;
      run.column = static_cast<std::int64_t>(piece - run.first) * Element<In>::kChunk;
      f(run, BatchRow<In>(params_, segments_[segment], unit_.first_row + row));
      piece += run.count;
    }
  }
  __device__ __forceinline__ uint4* SharedOf(int piece) const {
    return shared_ + (local_ + piece - first_) * kPieceVectors;
  }
  __device__ __forceinline__ Pieces Attached(const BatchRow<In>& row, const Run& run) const {
    Pieces slice;
    slice.Attach(row.Input(run.column), row.valid - run.column, run.count, SharedOf(run.piece));
    return slice;
  }

  const BatchParams& params_;
  const BatchUnit& unit_;
  const BatchSegment* const segments_;
  const Team team_;
  Stats<C>* const table_;
  uint4* const shared_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  int segment_ = 0;  // of row lane_
  int chunks_ = 0;
  int end_ = 0;  // pieces of the rows up to it
  int each_;     // pieces per warp
  int local_;    // the warp's first piece, within the block's
  int first_;    // the same within the unit's, and one past its last
  int last_;
};

// What a block of the kernel has in shared memory beside the rows.
template <typename C>
struct BatchTables {
  BatchSegment segments[2][kUnitSegments];  // of the unit at hand and of the next one
  BatchUnit units[3];                       // these two, and the one after them
  // Two halves, so that one barrier a unit is enough for the blocks of a cluster.
  Stats<C> stats[2][kBatchChunks];
};

template <typename In, bool kSkew>
class BatchRows {
 public:
  using C = ComputeOf<In>;

  __device__ __forceinline__ BatchRows(const BatchParams& params, BatchTables<C>& tables, uint4* shared)
      : params_(params), tables_(tables), shared_(shared) {}

  // Runs units first, first + step, ... below end.
  __device__ __forceinline__ void Run(std::uint32_t first, std::uint32_t end, std::uint32_t step, Team team) {
    if (first >= end) return;
    __syncthreads();  // the last list's units are done with the tables
    if (threadIdx.x < 2 && first + threadIdx.x * step < end) {
      tables_.units[threadIdx.x] = UnitAt(first + threadIdx.x * step);
    }
    __syncthreads();
    int turn = 0;
    FetchSegments(tables_.units[0], 0);
    __pipeline_commit();
#pragma unroll 1
    for (std::uint32_t at = first; at < end; at += step) {
      __pipeline_wait_prior(0);
      WaitForBulkReads();
      __syncthreads();
      const BatchUnit& unit = tables_.units[turn % 3];
      // Called once the unit's own copies are on their way.
      const auto fetch_next = [&] {
        if (at + step < end) FetchSegments(tables_.units[(turn + 1) % 3], (turn + 1) % 2);
        if (threadIdx.x == 0 && at + 2 * step < end) FetchUnit(at + 2 * step, (turn + 2) % 3);
        __pipeline_commit();
      };
      if (unit.log != 0) {
        RunUnit<true>(unit, turn % 2, team, fetch_next);
      } else {
        RunUnit<false>(unit, turn % 2, team, fetch_next);
      }
      ++turn;
    }
  }

 private:
  __device__ __forceinline__ const BatchUnit& UnitAt(std::uint32_t index) const {
    return params_.units != nullptr ? params_.units[index] : params_.inline_units[index];
  }
  __device__ __forceinline__ static void Copy(bool asynchronous, const void* from, void* to) {
    if (asynchronous) {
      __pipeline_memcpy_async(to, from, sizeof(uint4));
    } else {
      *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
    }
  }
  __device__ __forceinline__ void FetchUnit(std::uint32_t index, int place) const {
    Copy(params_.units != nullptr, &UnitAt(index), &tables_.units[place]);
  }
  __device__ __forceinline__ void FetchSegments(const BatchUnit& unit, int half) const {
    constexpr int kVectors = sizeof(BatchSegment) / sizeof(uint4);
    const bool is_far = params_.segments != nullptr;
    const BatchSegment* const from = (is_far ? params_.segments : params_.inline_segments) + unit.first_segment;
    const int index = static_cast<int>(threadIdx.x);
    if (index >= unit.segments * kVectors) return;
    Copy(is_far, reinterpret_cast<const uint4*>(from) + index,
         reinterpret_cast<uint4*>(tables_.segments[half]) + index);
  }

  template <bool kLog, typename F>
  __device__ __forceinline__ void RunUnit(const BatchUnit& unit, int half, Team team, F fetch_next) const {
    const BatchSegment* const segments = tables_.segments[half];
    const Scale<C>& scale = ScaleAt(unit.scale);
    if (unit.lanes == 0) {
      const LargeUnit<In, kSkew, kLog> large(params_, unit, segments, team, tables_.stats[half], shared_);
      large.Start();
      fetch_next();
      large.Finish(scale);
      return;
    }
    if constexpr (SmallSlots(sizeof(In)) > kChunkSlots) {
      if (unit.slots > kChunkSlots) {
        RunDoubleUnit<In, kSkew, kLog>(params_, unit, segments, shared_, scale, fetch_next);
        return;
      }
    }
    fetch_next();
    if (unit.slots <= 2) {
      RunSmallUnit<In, kSkew, kLog, 2>(params_, unit, segments, scale);
    } else {
      RunSmallUnit<In, kSkew, kLog, kChunkSlots>(params_, unit, segments, scale);
    }
  }

  // Where the parameters are: registers are short.
  __device__ __forceinline__ const Scale<C>& ScaleAt(int index) const {
    static_assert(sizeof(Scale<C>) == sizeof(ScaleParts<C>), "the parameters hold the parts");
    if constexpr (sizeof(C) == 8) {
      return reinterpret_cast<const Scale<C>&>(params_.scale_double[index]);
    } else {
      return reinterpret_cast<const Scale<C>&>(params_.scale_float[index]);
    }
  }

  const BatchParams& params_;
  BatchTables<C>& tables_;
  uint4* const shared_;
};

template <typename In, bool kSkew, int kMinBlocks>
__global__ void __launch_bounds__(kBatchThreads, kMinBlocks)
    BatchRowsKernel(const __grid_constant__ BatchParams params) {
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ BatchTables<ComputeOf<In>> tables;
  BatchRows<In, kSkew> rows(params, tables, reinterpret_cast<uint4*>(dynamic));
  if (params.cluster_units > 0) {
    const Team team{params.cluster_blocks};
    team.Sync();  // a block's shared memory may be written by others only once it has started
    const std::uint32_t clusters = gridDim.x / team.blocks;
    rows.Run(blockIdx.x / team.blocks, params.cluster_units, clusters, team);
    team.Sync();  // no block may leave, or use its table for other rows, while another still writes to it
  }
  rows.Run(params.cluster_units + blockIdx.x, params.unit_count, gridDim.x, Team{1});
  EndBulkStores(params.completion);
  Complete(params.completion);
}

// Blocks a multiprocessor has to hold: as many as its shared memory has room for.
template <typename In>
const BatchKernels& BatchKernelsOf() {
  constexpr int kMinBlocks = sizeof(In) == 8 ? 2 : 3;
  static const BatchKernels kernels{{reinterpret_cast<const void*>(&BatchRowsKernel<In, false, kMinBlocks>),
                                     reinterpret_cast<const void*>(&BatchRowsKernel<In, true, kMinBlocks>)}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
