#pragma once

#include "kernels/cuda/batch/batch.h"
#include "kernels/cuda/batch/exchange.cuh"
#include "kernels/cuda/batch/row.cuh"
#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/blocks/matrix.cuh"
#include "kernels/cuda/blocks/slice.cuh"
#include "kernels/cuda/blocks/team.cuh"

// The kernel for batches (batch/batch.h). Small rows go through registers, a group of lanes each; the chunks of large
// ones go through shared memory, dealt out evenly to the warps of the block or cluster.
namespace softmax::kernels::cuda {

template <typename In, bool kSkew, bool kMixed, int kSlots, LogForm kLogForm>
__device__ __forceinline__ void RunSmallUnit(const BatchUnit& unit, const UnitRows<In>& rows,
                                             const Scale<ComputeOf<In>>& scale) {
  const bool log = kLogForm == LogForm::kAny ? unit.log != 0 : kLogForm == LogForm::kYes;
  const Lanes lanes{static_cast<int>(threadIdx.x) & (unit.lanes - 1), unit.lanes};
  const int groups = kBatchThreads / unit.lanes;
  for (int first = 0; first < unit.rows; first += groups) {
    const int mine = first + static_cast<int>(threadIdx.x) / unit.lanes;
    // Lanes without a row go along with an empty one: the shuffles need whole warps.
    const bool active = mine < unit.rows;
    const BatchRow<In> row = rows.At(active ? mine : 0);
    const int valid = active ? static_cast<int>(row.valid) : 0;
    RowPart<In, kSlots, kSkew> part;
    part.Load(part.PlaceOf(row.input, valid, row.around, lanes), lanes);
    const auto stats =
        part.template FirstStats<kSlots, (kMixed || kSlots <= 2)>(log ? valid : kManyColumns, lanes, scale);
    part.Forget();
    if (!kMixed && !active) continue;
    const Normalizer<ComputeOf<In>> normalize(scale, stats, log, valid == 0);
    ForRowOutput<In, kMixed>(rows.output_type(), row, [&](auto* output) {
      if constexpr (kMixed) {
        part.template StoreMixed<false>(output, active ? static_cast<int>(row.cols) : 0, valid, true, lanes, normalize);
      } else {
        part.Store(output, row.cols, valid, true, lanes, normalize);
      }
    });
  }
}

// Stores the results of a row from `column` on, of which the slice has the first.
template <typename In, bool kMixed, typename S>
__device__ __forceinline__ void StoreSlice(const S& slice, DataType type, const BatchRow<In>& row, std::int64_t column,
                                           const Normalizer<ComputeOf<In>>& normalize) {
  ForRowOutput<In, kMixed>(type, row, [&](auto* output) {
    if constexpr (kMixed) {
      slice.StoreMixed(output + column, row.cols - column, row.valid - column, column == 0, normalize);
    } else {
      slice.Store(output + column, row.cols - column, row.valid - column, column == 0, normalize);
    }
  });
}

// Small rows that are two chunks wide: a warp each, through shared memory, as registers would not hold them. `mine`:
// the warp's part of it. Calls middle() between the copies and what they are for.
template <typename In, bool kSkew, bool kMixed, typename F>
__device__ __forceinline__ void RunDoubleUnit(bool log, const UnitRows<In>& rows, uint4* mine,
                                              const Scale<ComputeOf<In>>& scale, F middle) {
  using Row = Slice<In, kSkew>;
  constexpr int kChunks = 2;
  const auto for_rows = [&](auto f) {
    uint4* place = mine;
#pragma unroll 1
    for (int r = static_cast<int>(threadIdx.x) / 32; r < rows.count(); r += kBlockWarps) {
      const BatchRow<In> row = rows.At(r);
      f(row, Row(row.input, row.valid, kChunks, place));
      place += kChunks * kPieceVectors;
    }
  };
  for_rows([&](const BatchRow<In>& row, const Row& slice) { slice.Start(row.input, row.around); });
  middle();
  for_rows([&](const BatchRow<In>& row, const Row& slice) {
    const auto stats = slice.template RowStats<kChunks * kChunkSlots>(log ? row.valid : kManyColumns, scale);
    const Normalizer<ComputeOf<In>> normalize(scale, stats, log, row.valid == 0);
    StoreSlice<In, kMixed>(slice, rows.output_type(), row, 0, normalize);
  });
}

// Large rows: one chunk is a piece. Lane r of every warp knows row r of the unit.
template <typename In, bool kSkew, bool kMixed>
class LargeUnit {
 public:
  using C = ComputeOf<In>;
  using Pieces = Slice<In, kSkew>;

  // `table`: statistics of the rows' chunks, one after another. A cluster's blocks hold equal parts of one row. `mine`:
  // the warp's part of shared memory.
  __device__ __forceinline__ LargeUnit(bool log, const UnitRows<In>& rows, Team team, const BatchExchange& exchange,
                                       int turn, Stats<C>* table, uint4* mine)
      : log_(log), rows_(rows), exchange_(exchange), turn_(turn), table_(table), mine_(mine) {
    const bool is_one = rows.count() == 1;
    const int row = is_one ? 0 : lane_;
    if (row < rows.count()) {
      place_ = rows.Find(row);
      chunks_ = static_cast<int>((rows.At(place_, row).cols + Element<In>::kChunk - 1) / Element<In>::kChunk);
    }
    end_ = chunks_;
    if (!is_one) {
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int before = __shfl_up_sync(0xffffffffu, end_, step);
        if (lane_ >= step) end_ += before;
      }
    }
    const int all = __shfl_sync(0xffffffffu, end_, 31);
    const int block_shift = __ffs(team.blocks) - 1;  // a power of two
    const int block_pieces = (all + team.blocks - 1) >> block_shift;
    const int before = team.Rank() * block_pieces;
    const int pieces = max(0, min(block_pieces, all - before));
    // The first warps take a piece more, so that all have about as many.
    const int warp = static_cast<int>(threadIdx.x) / 32;
    first_ = before + (warp * pieces + kBlockWarps - 1) / kBlockWarps;
    last_ = before + ((warp + 1) * pieces + kBlockWarps - 1) / kBlockWarps;
    if (team.IsCluster() && threadIdx.x == 0) exchange.template Expect<C>(turn, all);
  }

  // Starts the copies: the warp's pieces of one row, its run, are a slice.
  __device__ __forceinline__ void Start() const {
    ForRuns([&](const Run& run, const BatchRow<In>& row) {
      SliceOf(row, run).Start(row.input + run.column, row.AroundFrom(run.column));
    });
  }

  // Calls middle() when all of the team have told their statistics.
  template <typename F>
  __device__ __forceinline__ void Finish(const Scale<C>& scale, F middle) const {
    __pipeline_wait_prior(0);
    __syncwarp();  // the lanes copied for each other
    ForRuns([&](const Run& run, const BatchRow<In>& row) {
      SliceOf(row, run).Reduce(
          log_ && run.column == 0 ? row.valid : kManyColumns, scale,
          [&](int k, const Stats<C>& stats) { exchange_.Publish(turn_, table_ + run.piece + k, stats); });
    });
    exchange_.Arrive(turn_);
    exchange_.Wait(turn_);
    middle();
    ForRuns([&](const Run& run, const BatchRow<In>& row) {
      const Stats<C> stats = FoldFlat(table_ + run.first, run.chunks, lane_, scale);
      const Normalizer<C> normalize(scale, stats, log_, row.valid == 0);
      StoreSlice<In, kMixed>(SliceOf(row, run), rows_.output_type(), row, run.column, normalize);
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
      const int place = __shfl_sync(0xffffffffu, place_, row);
      const int end = __shfl_sync(0xffffffffu, end_, row);
      Run run;
      run.piece = piece;
      run.count = min(end, last_) - piece;
      run.chunks = __shfl_sync(0xffffffffu, chunks_, row);
      run.first = end - run.chunks;
      run.column = static_cast<std::int64_t>(piece - run.first) * Element<In>::kChunk;
      f(run, rows_.At(place, row));
      piece += run.count;
    }
  }
  __device__ __forceinline__ Pieces SliceOf(const BatchRow<In>& row, const Run& run) const {
    return Pieces(row.input + run.column, row.valid - run.column, run.count,
                  mine_ + (run.piece - first_) * kPieceVectors);
  }

  const bool log_;
  const UnitRows<In>& rows_;
  const BatchExchange& exchange_;
  const int turn_;
  Stats<C>* const table_;
  uint4* const mine_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  int place_ = 0;  // of row lane_ in the table
  int chunks_ = 0;
  int end_ = 0;  // pieces of the rows up to it
  int first_;    // the warp's first piece within the unit, and one past its last
  int last_;
};

// What a block of the kernel has in shared memory beside the rows. One barrier a unit is enough, in its middle: while
// some warps are still at a unit's end others may be in the next one's first half, so what a unit uses until its end
// stays until the middle of the next.
template <typename C>
struct BatchTables {
  // Of the unit at hand and the two after it; segments, or kUnitSingles each.
  BatchSegment segments[3][kUnitSegments];
  BatchUnit units[4];
  Stats<C> stats[2][kBatchChunks];
  BatchExchange::Control control;
};

template <typename In, bool kSkew, bool kMixed>
class BatchRows {
 public:
  using C = ComputeOf<In>;
  static constexpr int kTakingThread = kBatchThreads - 32;  // of the warp that has the least to do

  __device__ __forceinline__ BatchRows(const BatchParams& params, BatchTables<C>& tables, uint4* shared)
      : params_(params),
        tables_(tables),
        mine_(shared + static_cast<int>(threadIdx.x) / 32 * params.warp_pieces * kPieceVectors) {}

  // Runs the units of clusters, or the others, with the other teams of the grid: the first OwnUnits() of each are its
  // own, the others go to who is ready for them, as blocks are not equally fast.
  __device__ __forceinline__ void Run(Team team) {
    const std::uint32_t first = Begin(team) + blockIdx.x / team.blocks;
    const std::uint32_t step = gridDim.x / team.blocks;
    const std::uint32_t end = End(team);
    if (first >= end) return;
    const BatchExchange exchange(team, &tables_.control);
    __syncthreads();  // the last list's units are done with the tables
    if (threadIdx.x < 3) {
      BatchUnit unit = {};
      if (first + threadIdx.x * step < end) unit = UnitAt(first + threadIdx.x * step);
      tables_.units[threadIdx.x] = unit;
    }
    if (threadIdx.x == 0) exchange.SetFirstTicket(first + (OwnUnits(team.blocks) - 1) * step);
    __syncthreads();
    FetchSegments(tables_.units[0], 0);
    FetchSegments(tables_.units[1], 1);
    __pipeline_commit();
    // The tables are the host's; only rows and lengths can be of earlier launches.
    WaitForEarlierLaunches();
    AllowNextLaunch();
    __pipeline_wait_prior(0);
    __syncthreads();
    int turn = 0;
#pragma unroll 1
    while (tables_.units[turn % 4].rows != 0) {
      const BatchUnit& unit = tables_.units[turn % 4];
      // Called in the unit's middle, after its barrier.
      const auto fetch = [&] {
        FetchSegments(tables_.units[(turn + 2) % 4], static_cast<unsigned>(turn + 2) % 3);
        if (threadIdx.x == kTakingThread) TakeUnit(exchange, turn, team);
        __pipeline_commit();
      };
      const UnitRows<In> rows(params_, unit, tables_.segments[static_cast<unsigned>(turn) % 3]);
      RunUnit(unit, rows, turn, team, exchange, fetch);
      ++turn;
    }
  }

 private:
  __device__ __forceinline__ BatchUnit UnitAt(std::uint32_t index) const {
    return params_.units != nullptr ? ReadHost(params_.units + index) : params_.inline_units[index];
  }
  __device__ __forceinline__ static void Copy(bool asynchronous, const void* from, void* to) {
    if (asynchronous) {
      __pipeline_memcpy_async(to, from, sizeof(uint4));
    } else {
      *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
    }
  }
  // The units of clusters, or the others.
  __device__ __forceinline__ std::uint32_t Begin(Team team) const {
    return team.IsCluster() ? 0 : params_.cluster_units;
  }
  __device__ __forceinline__ std::uint32_t End(Team team) const {
    return team.IsCluster() ? params_.cluster_units : params_.unit_count;
  }
  // In a turn's middle, by one thread of each block: fetches the unit that comes three turns later. The blocks of a
  // cluster have been told which, and the first one tells the next.
  __device__ __forceinline__ void TakeUnit(const BatchExchange& exchange, int turn, Team team) const {
    const std::uint32_t ticket = exchange.Ticket(turn);
    const int place = (turn + 3) % 4;
    if (!team.IsCluster()) {
      const std::uint32_t next = NextUnit(ticket, team);
      exchange.Tell(turn, next);
      FetchUnit(next, End(team), place);
      return;
    }
    FetchUnit(ticket, End(team), place);
    if (team.Rank() == 0 && tables_.units[(turn + 1) % 4].rows != 0) exchange.Tell(turn, NextUnit(ticket, team));
  }
  __device__ __forceinline__ std::uint32_t NextUnit(std::uint32_t ticket, Team team) const {
    if (ticket >= End(team)) return ticket;
    const std::uint32_t teams = gridDim.x / team.blocks;
    if (params_.taken == nullptr) return ticket + teams;
    return Begin(team) + OwnUnits(team.blocks) * teams + atomicAdd(params_.taken + (team.IsCluster() ? 0 : 1), 1u);
  }
  // Beyond `end` are units without rows.
  __device__ __forceinline__ void FetchUnit(std::uint32_t index, std::uint32_t end, int place) const {
    if (index >= end) {
      tables_.units[place] = {};
      return;
    }
    const bool is_far = params_.units != nullptr;
    Copy(is_far, is_far ? params_.units + index : params_.inline_units + index, &tables_.units[place]);
  }
  __device__ __forceinline__ void FetchSegments(const BatchUnit& unit, int third) const {
    static_assert(kUnitSingles * sizeof(BatchSingle) == kUnitSegments * sizeof(BatchSegment), "the same place");
    static_assert(sizeof(BatchSingle) == sizeof(uint4), "copied as one");
    constexpr int kVectors = sizeof(BatchSegment) / sizeof(uint4);
    const bool is_far = params_.segments != nullptr || params_.singles != nullptr;
    const auto* from = reinterpret_cast<const uint4*>(params_.singles) + unit.first_segment;
    int count = unit.segments;
    if (params_.singles == nullptr) {
      const BatchSegment* const segments = params_.segments != nullptr ? params_.segments : params_.inline_segments;
      from = reinterpret_cast<const uint4*>(segments + unit.first_segment);
      count *= kVectors;
    }
    const int index = static_cast<int>(threadIdx.x);
    if (index < count) Copy(is_far, from + index, reinterpret_cast<uint4*>(tables_.segments[third]) + index);
  }

  template <typename F>
  __device__ __forceinline__ void RunUnit(const BatchUnit& unit, const UnitRows<In>& rows, int turn, Team team,
                                          const BatchExchange& exchange, F fetch) const {
    const Scale<C>& scale = ScaleAt(unit.scale);
    if (unit.lanes == 0) {
      const LargeUnit<In, kSkew, kMixed> large(unit.log != 0, rows, team, exchange, turn, tables_.stats[turn % 2],
                                               mine_);
      large.Start();
      large.Finish(scale, fetch);
      return;
    }
    const auto middle = [&] {
      __pipeline_wait_prior(0);
      __syncthreads();
      fetch();
    };
    if constexpr (SmallSlots(sizeof(In)) > kChunkSlots) {
      if (unit.slots > kChunkSlots) {
        RunDoubleUnit<In, kSkew, kMixed>(unit.log != 0, rows, mine_, scale, middle);
        return;
      }
    }
    middle();
    // Few elements take so few instructions that looking at the operation for each counts.
    if constexpr (kMixed) {
      RunSmallUnit<In, kSkew, true, kChunkSlots, LogForm::kAny>(unit, rows, scale);
    } else if (unit.log != 0) {
      RunSmall<LogForm::kYes>(unit, rows, scale);
    } else {
      RunSmall<LogForm::kNo>(unit, rows, scale);
    }
  }
  template <LogForm kLogForm>
  __device__ __forceinline__ static void RunSmall(const BatchUnit& unit, const UnitRows<In>& rows,
                                                  const Scale<C>& scale) {
    if (unit.slots <= 2) {
      RunSmallUnit<In, kSkew, false, 2, kLogForm>(unit, rows, scale);
    } else {
      RunSmallUnit<In, kSkew, false, kChunkSlots, kLogForm>(unit, rows, scale);
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
  uint4* const mine_;  // the warp's part of shared memory
};

// By one thread of each block, when it takes no more units: the last one clears the counters for the next launch.
__device__ __forceinline__ void EndTaking(std::uint32_t* taken) {
  std::uint32_t* const ended = taken + 2;
  __threadfence();
  if (atomicAdd(ended, 1u) + 1 != gridDim.x) return;
  taken[0] = 0;
  taken[1] = 0;
  *ended = 0;
}

template <typename In, bool kSkew, bool kMixed>
__global__ void __launch_bounds__(kBatchThreads, BatchBlocks(sizeof(In), kMixed))
    BatchRowsKernel(const __grid_constant__ BatchParams params) {
  extern __shared__ __align__(128) unsigned char dynamic[];
  __shared__ BatchTables<ComputeOf<In>> tables;
  BatchRows<In, kSkew, kMixed> rows(params, tables, reinterpret_cast<uint4*>(dynamic));
  // The units of clusters, then the others: in a loop, so that both run the same code.
#pragma unroll 1
  for (int list = params.cluster_units > 0 ? 0 : 1; list < 2; ++list) {
    const bool is_cluster = list == 0;
    const Team team{is_cluster ? params.cluster_blocks : 1};
    if (is_cluster) {
      if (threadIdx.x == 0) BatchExchange(team, &tables.control).Init();
      team.Sync();  // a block's shared memory may be written by others only once it has started
    }
    rows.Run(team);
    // No block may leave, or use its table for other rows, while another still writes to it.
    if (is_cluster) team.Sync();
  }
  WaitForEarlierLaunches();  // a block without units, too: the earlier ones may still count in the workspace
  if (params.taken != nullptr && threadIdx.x == 0) EndTaking(params.taken);
  EndBulkStores(params.completion);
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
