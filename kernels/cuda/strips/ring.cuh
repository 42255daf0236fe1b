#pragma once

#include "kernels/cuda/blocks/bulk_ring.cuh"
#include "kernels/cuda/blocks/grid_table.cuh"
#include "kernels/cuda/strips/ring.h"
#include "kernels/cuda/strips/words.cuh"

// Rows over another axis that no cluster holds, or none holds well, where columns are whole vectors or words: one block
// a multiprocessor, all of which share each strip, and go through the strips in order. A unit is a chunk of a strip's
// columns; the block's units lie in a ring of places in shared memory from when they are read until their results are
// written, so that the units of later strips are read while those of earlier ones wait for their rows' statistics.
//
// Each warp of a block has its own part: readers start the copies; workers take statistics, of one or two rows each,
// and write results, of some columns each; one warp folds the statistics of the rows that fall to the block and tells
// them to all blocks; fetchers wait for those of the strips that the block has units of.
//
// No block waits in vain for the first strip that is not complete: all blocks take their units in order, and a block
// has places for all units that it has of one strip, so those of this one are in them or come before any other. A warp
// goes through the units in order too, so that none is two rounds of a barrier ahead of another.
namespace softmax::kernels::cuda {

template <typename In, bool kWide>
struct ColumnRingTables {
  static constexpr ColumnRingForm kForm = {kWide, false};
  static constexpr int kWidth = kForm.Width(sizeof(In));
  static constexpr int kPlaces = kForm.Places();
  static constexpr int kUnitPlaces = ColumnRingUnitPlaces(sizeof(In));
  // Units that have places at a time, in part.
  static constexpr int kTurns = (kUnitPlaces == 2 ? 8 : 4) / (kWide ? 2 : 1);
  static_assert(kTurns * kUnitPlaces >= kPlaces, "a turn is over when it comes again");

  struct Row {
    float from;    // softmax: the base's shift; log-softmax: the maximum
    float factor;  // as in Normalizer
    float low;     // likewise, log_lo
  };
  Row rows[kTurns][kWidth];
  std::uint64_t full[kTurns];
  std::uint64_t empty[kPlaces];
  int usual[kTurns];  // whether all rows are, see IsUsual(); otherwise there are their maxima and sums
  int ready[kTurns];  // one more than the number of the unit whose rows are there
};

template <typename In, bool kWide, bool kWords, bool kLog>
class ColumnRing {
 public:
  using Tables = ColumnRingTables<In, kWide>;

  __device__ __forceinline__ ColumnRing(const ColumnRingParams& params, unsigned char* tile, Tables* tables)
      : params_(params), tile_(tile), tables_(tables), scale_(params.scale), table_(params) {}

  // By the whole block.
  __device__ __forceinline__ void Run() {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kTurns) StartBarrier(&tables_->full[thread], 32);
    if (thread < kPlaces) StartBarrier(&tables_->empty[thread], kColumnRingWorkers);
    if (thread < kTurns) tables_->ready[thread] = 0;
    __syncthreads();
    const int other = Warp() - kColumnRingWorkers - 1;
    if (other < -1) {
      Work();
    } else if (other == -1) {
      FoldRows();
    } else if (other < kFetchers) {
      FetchRows(other);
    } else {
      Read(other - kFetchers);
    }
  }

 private:
  static constexpr int kSize = static_cast<int>(sizeof(In));
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr ColumnRingForm kForm = {kWide, kWords};
  static constexpr int kStripBytes = kForm.StripBytes();
  static constexpr int kPlaces = kForm.Places();
  static constexpr int kReaders = kForm.Readers(sizeof(In));
  static constexpr int kFetchers = ColumnRingFetchers(sizeof(In));
  static constexpr int kWidth = Tables::kWidth;
  static constexpr int kTurns = Tables::kTurns;
  static constexpr int kUnitPlaces = Tables::kUnitPlaces;
  // What a lane copies or writes of a column in a strip, and how many columns a warp does side by side.
  static constexpr int kPieceBytes = kWords ? 4 : kVectorBytes;
  static constexpr int kPieces = kStripBytes / kPieceBytes;
  static constexpr int kPieceRows = kPieceBytes / kSize;
  static constexpr int kLines = 32 / kPieces;
  using Piece = cuda::Unit<In, kPieceRows>;

  __device__ __forceinline__ static int Warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ __forceinline__ static int Lane() { return static_cast<int>(threadIdx.x) % 32; }
  template <typename T>
  __device__ __forceinline__ static volatile T& Volatile(T* at) {
    return *at;
  }

  // A unit among the block's: a chunk of a strip, which is one of those of an outer block.
  struct Unit {
    int turn = 0;   // units before it,
    int place = 0;  // and its first place in the ring
    int strip;
    int outer;
    int side;  // the strip's number in it
    int chunk;
  };
  __device__ __forceinline__ Unit First() const {
    Unit unit;
    unit.strip = static_cast<int>(blockIdx.x) / params_.chunks;
    unit.chunk = static_cast<int>(blockIdx.x) - unit.strip * params_.chunks;
    unit.outer = unit.strip / params_.strips;
    unit.side = unit.strip - unit.outer * params_.strips;
    return unit;
  }
  __device__ __forceinline__ void GoOn(Unit* unit) const {
    ++unit->turn;
    unit->place = PlaceAfter(unit->place, kUnitPlaces);
    unit->chunk += static_cast<int>(gridDim.x);
#pragma unroll 1
    while (unit->chunk >= params_.chunks) {
      unit->chunk -= params_.chunks;
      ++unit->strip;
      if (++unit->side < params_.strips) continue;
      unit->side = 0;
      ++unit->outer;
    }
  }
  __device__ __forceinline__ bool IsUnit(const Unit& unit) const { return unit.strip < params_.rows; }
  __device__ __forceinline__ static int PlaceAfter(int place, int count) {
    place += count;
    return place < kPlaces ? place : place - kPlaces;
  }
  __device__ __forceinline__ unsigned char* PlaceAt(int place) const { return tile_ + place * kForm.PlaceBytes(); }
  __device__ __forceinline__ int WidthOf(int side) const {
    return min(kWidth, static_cast<int>(params_.segment.inner) - side * kWidth);
  }
  __device__ __forceinline__ int ColumnsOf(const Unit& unit) const {
    const std::int64_t left = params_.segment.cols - static_cast<std::int64_t>(unit.chunk) * kChunk;
    return left < kChunk ? static_cast<int>(left) : kChunk;
  }
  // From an outer block's first element to that of column `column` of a unit.
  __device__ __forceinline__ std::int64_t Past(const Unit& unit, int column) const {
    return (static_cast<std::int64_t>(unit.chunk) * kChunk + column) * params_.segment.inner + unit.side * kWidth;
  }
  // Where a piece of a column lies in a place: alike in columns 8 apart.
  __device__ __forceinline__ static int PiecePlace(int column, int piece) {
    constexpr int kOfVector = kVectorBytes / kPieceBytes;
    return RingPlace<kStripBytes>(column, piece / kOfVector) + piece % kOfVector * kPieceBytes;
  }
  __device__ __forceinline__ int Entries() const { return ColumnRingEntries(kWidth, params_.chunks); }

  // The warps that read, in turn.
  __device__ __forceinline__ void Read(int reader) const {
    static_assert(kReaders * kUnitPlaces <= kPlaces, "they never wait for the same place");
    const DeviceSegment& segment = params_.segment;
    constexpr int kTurnLines = 8;
    const int line = Lane() / kPieces;
    const int piece = Lane() % kPieces;
    const auto step = static_cast<std::uintptr_t>(kLines * segment.inner * kSize);
#pragma unroll 1
    for (Unit unit = First(); IsUnit(unit); GoOn(&unit)) {
      if (unit.turn % kReaders != reader) continue;
      table_.AwaitPlace(unit.strip);
      const int columns = ColumnsOf(unit);
      const bool has_piece = piece * kPieceRows < WidthOf(unit.side);
      const In* const from = static_cast<const In*>(segment.input) + unit.outer * segment.input_stride;
      auto memory = reinterpret_cast<std::uintptr_t>(from + Past(unit, line) + piece * kPieceRows);
      int place = unit.place;
#pragma unroll 1
      for (int i = 0; i < kUnitPlaces; ++i) {
        // Before its first use a place looks as if one had ended.
        const int round = (unit.turn * kUnitPlaces + i) / kPlaces;
        while (!HasBulkLoad(&tables_->empty[place], (round - 1) & 1)) __nanosleep(20);
        unsigned char* to = PlaceAt(place);
        const int end = min(has_piece ? columns - i * kColumnRingPlaceColumns : 0, kColumnRingPlaceColumns);
        if constexpr (kLines == kTurnLines) {
          to += PiecePlace(line, piece);
          ForCopies(line, end, kLines, [&] {
            Copy(to, memory);
            to += kLines * kStripBytes;
            memory += step;
          });
        } else {
#pragma unroll 2
          for (int k = line; k < end; to += kTurnLines * kStripBytes) {
#pragma unroll
            for (int j = 0; j < kTurnLines; j += kLines, k += kLines) {
              if (k < end) Copy(to + PiecePlace(line + j, piece), memory);
              memory += step;
            }
          }
        }
        place = PlaceAfter(place, 1);
      }
      ArriveAfterCopies(&tables_->full[unit.turn % kTurns]);
    }
  }
  __device__ __forceinline__ static void Copy(unsigned char* shared, std::uintptr_t memory) {
    if constexpr (kWords) {
      CopyWordAsync(shared, memory);
    } else {
      CopyAsync(shared, memory);
    }
  }
  __device__ __forceinline__ static void ArriveAfterCopies(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 800
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
#endif
  }
  __device__ __forceinline__ static void Arrive(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
    const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
#endif
  }

  // The warps that compute.
  __device__ __forceinline__ void Work() const {
    Unit reduced = First();
    Unit stored = reduced;
#pragma unroll 1
    while (IsUnit(stored)) {
      bool idle = true;
      if (IsUnit(reduced) && HasCome(reduced.turn)) {
        Reduce(reduced);
        GoOn(&reduced);
        idle = false;
      }
      if (IsReady(stored.turn)) {
        __threadfence_block();
        Store(stored);
        GoOn(&stored);
        idle = false;
      }
      if (idle) __nanosleep(20);
    }
  }
  __device__ __forceinline__ bool IsReady(int turn) const {
    return __all_sync(0xffffffffu, Volatile(&tables_->ready[turn % kTurns]) == turn + 1);
  }
  __device__ __forceinline__ bool HasCome(int turn) const {
    return __all_sync(0xffffffffu, HasBulkLoad(&tables_->full[turn % kTurns], turn / kTurns & 1));
  }
  // Tells the statistics of the warp's rows in a unit.
  __device__ __forceinline__ void Reduce(const Unit& unit) const {
    using Words = ColumnWords<In, true, kStripBytes>;
    constexpr int kRows = Words::kRows;
    static_assert(kWidth % (kRows * kColumnRingWorkers) == 0, "planned for");
    const int columns = ColumnsOf(unit);
    const auto tile_of = [&](int slot) {
      constexpr int kPlaceSlots = kForm.PlaceBytes() / Words::kSlotBytes;
      return PlaceAt(PlaceAfter(unit.place, slot / kPlaceSlots)) + slot % kPlaceSlots * Words::kSlotBytes;
    };
#pragma unroll 1
    for (int word = Warp(); word * kRows < WidthOf(unit.side); word += kColumnRingWorkers) {
      Stats<float> stats[kRows];
      if (columns == kChunk) {
        Words(tile_of, word, columns).Reduce(scale_, stats);
      } else {
        ColumnWords<In, false, kStripBytes>(tile_of, word, columns).Reduce(scale_, stats);
      }
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const int index = (word * kRows + k) * params_.chunks + unit.chunk;
        if (Lane() == k) table_.Publish(unit.strip, Entries(), index, stats[k]);
      }
      __syncwarp();
    }
  }
  // Writes the results of the warp's columns in each of a unit's places, and leaves them.
  __device__ __forceinline__ void Store(const Unit& unit) const {
    const int turn = unit.turn % kTurns;
    const int piece = Lane() % kPieces;
    const typename Tables::Row* const rows = tables_->rows[turn] + piece * kPieceRows;
    const bool has_piece = piece * kPieceRows < WidthOf(unit.side);
    if (tables_->usual[turn] == 0) {
      StoreAny(unit, has_piece, rows);
      return;
    }
    float from[kPieceRows];
    float factor[kPieceRows];
    LogTerms<float> terms[kPieceRows];
#pragma unroll
    for (int e = 0; e < kPieceRows; ++e) {
      from[e] = rows[e].from;
      factor[e] = rows[e].factor;
      if (kLog) terms[e] = LogTerms<float>(MaxPre(from[e], scale_), factor[e], rows[e].low, params_.zero);
    }
    const LogScale<float> log_scale(scale_, params_.log_pre, params_.log_factor);
    ForPieces(unit, has_piece, [&](const unsigned char* at, In* to) {
      float x[kPieceRows];
      Piece::Open(Piece::Load(at), x);
#pragma unroll
      for (int e = 0; e < kPieceRows; ++e) {
        if constexpr (!kLog) {
          x[e] = scale_.PlainExp(x[e], from[e]) * factor[e];
        } else if constexpr (sizeof(In) == 2) {
          x[e] = fma(x[e] - from[e], scale_.plain, -factor[e]);
        } else {
          x[e] = terms[e].NumberResult(x[e], log_scale);
        }
      }
      *reinterpret_cast<typename Piece::Raw*>(to) = Piece::Close(x);
    });
  }
  // In any form, element by element.
  __device__ __forceinline__ void StoreAny(const Unit& unit, bool has_piece, const typename Tables::Row* rows) const {
    ForPieces(unit, has_piece, [&](const unsigned char* at, In* to) {
#pragma unroll 1
      for (int e = 0; e < kPieceRows; ++e) {
        const Normalizer<float> row(scale_, Stats<float>{rows[e].from, rows[e].factor}, kLog, false);
        float x[1] = {ToCompute(reinterpret_cast<const In*>(at)[e])};
        row.template Apply<In, true>(x);
        to[e] = FromCompute<In, float>(x[0]);
      }
    });
  }
  template <typename F>
  __device__ __forceinline__ void ForPieces(const Unit& unit, bool has_piece, F store) const {
    constexpr int kStep = kColumnRingWorkers * kLines;
    constexpr int kTimes = kColumnRingPlaceColumns / kStep;
    const DeviceSegment& segment = params_.segment;
    const int line = Warp() * kLines + Lane() / kPieces;
    const int piece = Lane() % kPieces;
    In* to =
        static_cast<In*>(segment.output) + unit.outer * segment.output_stride + Past(unit, line) + piece * kPieceRows;
    const std::int64_t step = kStep * segment.inner;
    const int columns = has_piece ? ColumnsOf(unit) - line : 0;
    int place = unit.place;
#pragma unroll 1
    for (int i = 0; i < kUnitPlaces; ++i) {
      const unsigned char* const at = PlaceAt(place) + PiecePlace(line, piece);
#pragma unroll
      for (int k = 0; k < kTimes; ++k) {
        if (i * kColumnRingPlaceColumns + k * kStep < columns) store(at + k * kStep * kStripBytes, to);
        to += step;
      }
      __syncwarp();
      if (Lane() == 0) Arrive(&tables_->empty[place]);
      place = PlaceAfter(place, 1);
    }
  }

  // The warp that folds: rows of strips are dealt out.
  __device__ __forceinline__ void FoldRows() const {
#pragma unroll 1
    for (unsigned number = blockIdx.x;; number += gridDim.x) {
      const auto strip = static_cast<int>(number / kWidth);
      const auto row = static_cast<int>(number % kWidth);
      if (strip >= params_.rows) return;
      if (row >= WidthOf(strip % params_.strips)) continue;
      const Stats<float> stats = Fold(strip, row * params_.chunks);
      if (Lane() == 0) table_.Publish(strip, Entries(), kWidth * params_.chunks + row, stats);
      __syncwarp();
    }
  }
  // What FoldFlat() gives for the entries from `first` on.
  __device__ __forceinline__ Stats<float> Fold(int strip, int first) const {
    constexpr int kAtOnce = 4;
    const int end = first + params_.chunks;
    auto chain = Chain<float>::From(NoStats<float>());
#pragma unroll 1
    for (int begin = first; begin < end; begin += 32 * kAtOnce) {
      Stats<float> next[kAtOnce];
      table_.AwaitSome(strip, Entries(), begin + Lane(), end, next);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (i == 0 && begin == first) {
          chain = Chain<float>::From(next[0]);
        } else {
          chain.Add(next[i], scale_);
        }
      }
    }
    __syncwarp();
    return CombineLanes(chain.End(), scale_);
  }

  // The warps that fetch, in turn: a lane for each row.
  __device__ __forceinline__ void FetchRows(int fetcher) const {
#pragma unroll 1
    for (Unit unit = First(); IsUnit(unit); GoOn(&unit)) {
      if (unit.turn % kFetchers != fetcher) continue;
      const int turn = unit.turn % kTurns;
      const int first = kWidth * params_.chunks;
      const int width = WidthOf(unit.side);
      constexpr int kEach = (kWidth + 31) / 32;
      Stats<float> stats[kEach];
      table_.AwaitSome(unit.strip, Entries(), first + Lane(), first + width, stats);
      bool usual = true;
      typename Tables::Row terms[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const Normalizer<float> row(scale_, stats[i], kLog, false);
        terms[i] = {kLog ? row.max : row.base.shift, row.factor, row.log_lo};
        usual = usual && (Lane() + 32 * i >= width || IsUsual<In>(row));
      }
      usual = __all_sync(0xffffffffu, usual);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (Lane() + 32 * i >= width) continue;
        tables_->rows[turn][Lane() + 32 * i] =
            usual ? terms[i] : typename Tables::Row{stats[i].max, stats[i].sum, 0.0f};
      }
      if (Lane() == 0) tables_->usual[turn] = usual ? 1 : 0;
      __threadfence_block();
      __syncwarp();
      if (Lane() == 0) {
        Volatile(&tables_->ready[turn]) = unit.turn + 1;
        table_.LeavePlace(unit.strip);
      }
      __syncwarp();
    }
  }

  const ColumnRingParams& params_;
  unsigned char* const tile_;
  Tables* const tables_;
  const Scale<float> scale_;
  const GridTable<float, ColumnRingParams> table_;
};

template <typename In, bool kWide, bool kWords, bool kLog>
__global__ void __launch_bounds__((ColumnRingForm{kWide, kWords}.Threads(sizeof(In))), 1)
    ColumnRingKernel(const __grid_constant__ ColumnRingParams params) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char tile[];
  __shared__ ColumnRingTables<In, kWide> tables;
  ColumnRing<In, kWide, kWords, kLog>(params, tile, &tables).Run();
  GridTable<float, ColumnRingParams>::End(params);
  Complete(params.completion);
#endif
}

}  // namespace softmax::kernels::cuda
