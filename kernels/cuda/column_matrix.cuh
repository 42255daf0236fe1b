#pragma once

#include <new>

#include "kernels/cuda/column_copy.cuh"
#include "kernels/cuda/column_plan.h"
#include "kernels/cuda/column_unit.cuh"
#include "kernels/cuda/complete.cuh"
#include "kernels/cuda/team.cuh"

// The kernel for rows over another axis. A strip lies in shared memory as in memory, column after column. A thread
// reduces units of the columns that belong to one lane of the tree; the lanes of a warp, and then the tasks of the
// other lanes, are combined in the order of the tree.
namespace softmax::kernels::cuda {

template <typename In, int kUnit>
class ColumnMatrix {
 public:
  using C = ComputeOf<In>;

  // What the block works on. In shared memory, like the scale: each thread has too few registers for it.
  struct Strip {
    std::int64_t outer;  // the first outer block
    std::int64_t first;  // the first inner element
    int width;           // and how many there are
    int mine;            // parts of this block
    int steps;
    int rank;  // in the cluster
    int skew;  // bytes from a 16-byte boundary to the strip's first element
  };
  static __device__ Strip StripOf(const ColumnParams& params) {
    const DeviceSegment& segment = params.segment;
    const Team team{params.cluster_blocks};
    const std::int64_t item = blockIdx.x / static_cast<unsigned>(params.cluster_blocks);
    const std::int64_t outer = item / params.strips;
    Strip strip;
    strip.outer = params.small ? outer * params.step_parts : outer;
    strip.first = (item - outer * params.strips) * params.strip;
    const std::int64_t left = segment.inner - strip.first;
    strip.width = left < params.strip ? static_cast<int>(left) : params.strip;
    if (params.small) {
      const std::int64_t blocks = segment.outer - strip.outer;
      strip.mine = blocks < params.step_parts ? static_cast<int>(blocks) : params.step_parts;
    } else {
      strip.mine = ChunkCount(params, team);
    }
    strip.rank = team.Rank();
    strip.steps = (strip.mine + params.step_parts - 1) / params.step_parts;
    const std::int64_t offset = strip.outer * segment.input_stride + strip.first;
    const auto address =
        reinterpret_cast<std::uintptr_t>(segment.input) + static_cast<std::uintptr_t>(offset) * sizeof(In);
    strip.skew = kUnit == 1 ? static_cast<int>(address % kVectorBytes) : 0;
    return strip;
  }

  __device__ __forceinline__ ColumnMatrix(const ColumnParams& params, unsigned char* shared, const Strip& strip,
                                          const Scale<C>& scale)
      : params_(params),
        segment_(params.segment),
        tasks_(params.tasks),
        strip_(strip),
        scale_(scale),
        team_{params.cluster_blocks},
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        tile_(shared),
        partial_(reinterpret_cast<C*>(shared + params.partial_offset)),
        maxima_(reinterpret_cast<C*>(shared + params.maxima_offset)),
        table_(reinterpret_cast<Stats<C>*>(shared + params.table_offset)),
        rows_(reinterpret_cast<Normalizer<C>*>(shared + params.rows_offset)) {}

  __device__ void Run() {
    for (int step = 0; step < params_.stages; ++step) {
      if (step < strip_.steps) Read(step);
      CommitCopies();
    }
    if (!params_.small) ClearTable();
    team_.Arrive();
    for (int step = 0; step < strip_.steps; ++step) {
      WaitCopies(params_.stages - 1);
      __syncthreads();
      Reduce(step);
      if (step + params_.stages < strip_.steps) Read(step + params_.stages);
      CommitCopies();
    }
    team_.Wait();
    if (!params_.small) FoldRows();
    __syncthreads();
    WriteResults();
  }

 private:
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kPiece = kUnit < 4 ? kUnit : 4;  // elements of a unit whose exponentials are summed at a time
  using RawUnit = Unit<In, kUnit>;
  using Raw = typename RawUnit::Raw;

  // What lies where.

  // Chunks of the rows that this block takes.
  static __device__ int ChunkCount(const ColumnParams& params, Team team) {
    const int chunks = static_cast<int>((params.segment.cols + kChunk - 1) / kChunk);
    if (!params.grouped) return (chunks - team.Rank() + team.blocks - 1) / team.blocks;
    const int groups = (chunks + kGroupChunks - 1) / kGroupChunks;
    const int count = (groups - team.Rank() + team.blocks - 1) / team.blocks;
    const bool has_last = (groups - 1) % team.blocks == team.Rank();
    return count * kGroupChunks - (has_last ? groups * kGroupChunks - chunks : 0);
  }
  // This block's part `index` of large rows: every chunk, or group of chunks, whose accumulators are the block's.
  __device__ int ChunkAt(int index) const {
    if (!params_.grouped) return strip_.rank + index * team_.blocks;
    return (strip_.rank + index / kGroupChunks * team_.blocks) * kGroupChunks + index % kGroupChunks;
  }
  __device__ std::int64_t FirstColumn(int index) const {
    return params_.small ? 0 : static_cast<std::int64_t>(ChunkAt(index)) * kChunk;
  }
  __device__ int Columns(int index) const {
    const std::int64_t left = segment_.cols - FirstColumn(index);
    return params_.small || left < kChunk ? static_cast<int>(left) : kChunk;
  }
  __device__ int StepParts(int step) const {
    const int left = strip_.mine - step * params_.step_parts;
    return left < params_.step_parts ? left : params_.step_parts;
  }
  // From the first element of a tensor to the first of a part.
  __device__ std::int64_t Offset(int index, std::int64_t stride) const {
    const std::int64_t block = params_.small ? strip_.outer + index : strip_.outer;
    return block * stride + FirstColumn(index) * segment_.inner + strip_.first;
  }
  __device__ std::int64_t InputOffset(int index) const { return Offset(index, segment_.input_stride); }
  __device__ unsigned char* Stage(int step) const {
    return tile_ + step % params_.stages * params_.stage_bytes + strip_.skew;
  }
  // Columns of a part, of `columns` in all, that count for row `i` of the strip.
  __device__ int Limit(int index, int columns, int i) const {
    if (segment_.lengths == nullptr) return columns;
    const std::int64_t length = ValidLength(segment_, Row(index, i)) - FirstColumn(index);
    return length <= 0 ? 0 : length < columns ? static_cast<int>(length) : columns;
  }
  __device__ std::int64_t Row(int index, int i) const {
    return (params_.small ? strip_.outer + index : strip_.outer) * segment_.inner + strip_.first + i;
  }
  __device__ int LeastLimit(int index, int columns, int i) const {
    int least = columns;
    if (segment_.lengths == nullptr) return least;
    for (int e = 0; e < kUnit; ++e) least = min(least, Limit(index, columns, i + e));
    return least;
  }

  // Memory to shared memory and back.

  // Calls f(lines) for what a step holds of a tensor.
  template <typename T, typename F>
  __device__ __forceinline__ void ForLines(int step, T* tensor, std::int64_t stride, F f) const {
    constexpr int kSize = sizeof(In);
    const int parts = StepParts(step);
    const bool whole = params_.strips == 1;
    const bool together = params_.small && params_.dense;
    for (int r = 0; r < (together ? 1 : parts); ++r) {
      const int index = step * params_.step_parts + r;
      const int columns = Columns(index);
      Lines lines;
      lines.memory =
          reinterpret_cast<std::uintptr_t>(tensor) + static_cast<std::uintptr_t>(Offset(index, stride)) * kSize;
      lines.shared = Stage(step) + r * params_.part_bytes;
      lines.memory_pitch = whole ? 0 : segment_.inner * kSize;
      lines.shared_pitch = whole ? 0 : params_.pitch;
      lines.count = whole ? 1 : columns;
      lines.bytes =
          whole ? (together ? parts : 1) * columns * static_cast<int>(segment_.inner) * kSize : strip_.width * kSize;
      f(lines);
    }
  }
  __device__ __forceinline__ void Read(int step) const {
    const auto input = reinterpret_cast<std::uintptr_t>(segment_.input);
    const std::int64_t last = params_.small ? strip_.outer + strip_.mine - 1 : strip_.outer;
    const std::int64_t end = last * segment_.input_stride + segment_.cols * segment_.inner;
    ForLines(step, static_cast<const In*>(segment_.input), segment_.input_stride, [&](const Lines& lines) {
      ReadLines<In>(lines, input + static_cast<std::uintptr_t>(strip_.outer * segment_.input_stride) * sizeof(In),
                    input + static_cast<std::uintptr_t>(end) * sizeof(In));
    });
  }

  // Statistics.

  // What a thread has in a task.
  struct Place {
    bool active;
    int part;  // of the step
    int unit;  // of the strip
    int lane;  // of the tree
    int in_warp;
    int task;  // of the lanes
  };
  __device__ __forceinline__ int TaskCount(int parts) const {
    const int in_warp = 1 << tasks_.warp_parts_log;
    return ((parts + in_warp - 1) >> tasks_.warp_parts_log) * tasks_.groups << tasks_.lane_tasks_log;
  }
  __device__ __forceinline__ Place PlaceOf(int task, int parts) const {
    const int side = lane_ & ((1 << tasks_.side_log) - 1);
    const int others = lane_ >> tasks_.side_log;
    const int rest = task >> tasks_.lane_tasks_log;
    const int part = rest / tasks_.groups;
    Place place;
    place.task = task & ((1 << tasks_.lane_tasks_log) - 1);
    place.in_warp = others & ((1 << tasks_.warp_lanes_log) - 1);
    place.part = (part << tasks_.warp_parts_log) + (others >> tasks_.warp_lanes_log);
    place.unit = ((rest - part * tasks_.groups) << tasks_.side_log) + side;
    place.lane = (place.in_warp << tasks_.lane_tasks_log) + place.task;
    place.active = place.part < parts && place.unit * kUnit < strip_.width;
    return place;
  }
  // The lanes of a warp walk through the columns of a vector in different orders, so that they read different banks.
  // They only swap the operands of sums.
  __device__ __forceinline__ int Spread(const Place& place) const {
    return (place.in_warp >> tasks_.spread_shift << tasks_.spread_scale) & (kVector - 1);
  }
  __device__ __forceinline__ double* PartialSums() const { return reinterpret_cast<double*>(partial_); }
  __device__ __forceinline__ int PartialAt(const Place& place) const {
    return ((place.part << tasks_.lane_tasks_log) + place.task) * params_.strip + place.unit * kUnit;
  }

  // Where a place's columns lie, and which of them count.
  struct Stretch {
    const unsigned char* first;  // the unit in the first column
    int index;
    int columns;
    int full;    // slots whose columns all count for every row of the unit
    int begin;   // the first column of the next slot
    int spread;  // see Spread
  };
  __device__ __forceinline__ Stretch StretchOf(int step, const Place& place) const {
    Stretch stretch;
    stretch.index = step * params_.step_parts + place.part;
    stretch.columns = Columns(stretch.index);
    const int column = place.lane * kVector;
    const int slot_columns = tasks_.lanes * kVector;
    const int least = LeastLimit(stretch.index, stretch.columns, place.unit * kUnit) - column - kVector;
    stretch.full =
        least < 0 ? 0 : static_cast<int>(static_cast<unsigned>(least) / static_cast<unsigned>(slot_columns)) + 1;
    stretch.begin = column + stretch.full * slot_columns;
    stretch.spread = Spread(place);
    stretch.first = Stage(step) + place.part * params_.part_bytes +
                    place.unit * (kUnit * static_cast<int>(sizeof(In))) + column * params_.pitch;
    return stretch;
  }
  // Calls f(raw) for kPiece elements from `first` on of a unit, in place e of the vectors of all slots in their order.
  // Rows that end before are -inf.
  template <int kPiece, typename F>
  __device__ __forceinline__ void ForSlots(const Stretch& stretch, const Place& place, int first, int e, F f) const {
    using Piece = Unit<In, kPiece>;
    const int slot_columns = tasks_.lanes * kVector;
    const int slot_bytes = slot_columns * params_.pitch;
    const int at = e ^ stretch.spread;
    const unsigned char* p = stretch.first + at * params_.pitch + first * static_cast<int>(sizeof(In));
#pragma unroll 4
    for (int slot = 0; slot < stretch.full; ++slot) {
      f(Piece::Load(p));
      p += slot_bytes;
    }
#pragma unroll 1
    for (int column = stretch.begin + at; column < stretch.columns; column += slot_columns) {
      C x[kPiece];
      Piece::Open(Piece::Load(p), x);
#pragma unroll
      for (int k = 0; k < kPiece; ++k) {
        const int limit = Limit(stretch.index, stretch.columns, place.unit * kUnit + first + k);
        if (column >= limit) x[k] = -Infinity<C>();
      }
      f(Piece::Close(x));
      p += slot_bytes;
    }
  }

  __device__ __forceinline__ void Maxima(int step, int parts) const {
    C* const out = tasks_.lane_tasks_log == 0 ? maxima_ : partial_;
    for (int task = warp_; task < TaskCount(parts); task += kBlockWarps) {
      const Place place = PlaceOf(task, parts);
      UnitMaximum<In, kUnit> maximum;
      if (place.active) AddColumns(step, place, &maximum);
      C max[kUnit];
      maximum.Get(max);
      for (int offset = 1 << tasks_.warp_lanes_log >> 1; offset > 0; offset >>= 1) {
#pragma unroll
        for (int e = 0; e < kUnit; ++e) {
          max[e] = fmax(max[e], __shfl_xor_sync(0xffffffffu, max[e], offset << tasks_.side_log));
        }
      }
      if (!place.active || place.in_warp != 0) continue;
#pragma unroll
      for (int e = 0; e < kUnit; ++e) out[PartialAt(place) + e] = max[e];
    }
  }
  __device__ __forceinline__ void AddColumns(int step, const Place& place, UnitMaximum<In, kUnit>* maximum) const {
    const Stretch stretch = StretchOf(step, place);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      ForSlots<kUnit>(stretch, place, 0, e, [&](const Raw& raw) { maximum->Add(raw); });
    }
  }
  // The maxima of the tasks become those of the parts.
  __device__ __forceinline__ void ReduceMaxima(int parts) const {
    const int tasks = 1 << tasks_.lane_tasks_log;
    for (int i = static_cast<int>(threadIdx.x); i < parts * params_.strip; i += kBlockThreads) {
      const int part = i / params_.strip;
      const C* const p = partial_ + part * (tasks - 1) * params_.strip + i;
      C max = p[0];
      for (int task = 1; task < tasks; ++task) max = fmax(max, p[task * params_.strip]);
      maxima_[i] = max;
    }
  }

  // The sum over the places first, first + kStep, ... within a vector; see PlacesSum.
  template <int kFirst, int kStep, int kPiece, typename F>
  __device__ __forceinline__ void PlaceSums(F place_sum, double (&sum)[kPiece]) const {
    if constexpr (kStep == kVector) {
      C place[kPiece];
      place_sum(kFirst, place);
#pragma unroll
      for (int k = 0; k < kPiece; ++k) sum[k] = place[k];
    } else {
      double other[kPiece];
      PlaceSums<kFirst, kStep * 2>(place_sum, sum);
      PlaceSums<kFirst + kStep, kStep * 2>(place_sum, other);
#pragma unroll
      for (int k = 0; k < kPiece; ++k) sum[k] += other[k];
    }
  }
  __device__ __forceinline__ void Sums(int step, int parts) const {
    for (int task = warp_; task < TaskCount(parts); task += kBlockWarps) {
      const Place place = PlaceOf(task, parts);
      const Stretch stretch = place.active ? StretchOf(step, place) : Stretch{};
      // Few elements at a time leave registers for several blocks.
#pragma unroll 1
      for (int first = 0; first < kUnit; first += kPiece) {
        double sum[kPiece];
#pragma unroll
        for (int e = 0; e < kPiece; ++e) sum[e] = 0;
        if (place.active) SumExponentials(stretch, place, first, sum);
        for (int offset = 1 << tasks_.warp_lanes_log >> 1; offset > 0; offset >>= 1) {
#pragma unroll
          for (int e = 0; e < kPiece; ++e) {
            sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], offset << tasks_.side_log);
          }
        }
        if (!place.active || place.in_warp != 0) continue;
#pragma unroll
        for (int e = 0; e < kPiece; ++e) PartialSums()[PartialAt(place) + first + e] = sum[e];
      }
    }
  }
  __device__ __forceinline__ void SumExponentials(const Stretch& stretch, const Place& place, int first,
                                                  double (&sum)[kPiece]) const {
    const UnitBases<C, std::make_index_sequence<kPiece>> bases(
        maxima_ + place.part * params_.strip + place.unit * kUnit + first, scale_);
    PlaceSums<0, 1>(
        [&](int e, C(&s)[kPiece]) {
#pragma unroll
          for (int k = 0; k < kPiece; ++k) s[k] = 0;
          ForSlots<kPiece>(stretch, place, first, e, [&](const typename Unit<In, kPiece>::Raw& raw) {
            C x[kPiece];
            Unit<In, kPiece>::Open(raw, x);
#pragma unroll
            for (int k = 0; k < kPiece; ++k) s[k] += bases.of[k].Exp(x[k], scale_);
          });
        },
        sum);
  }

  // The sum over the tasks of a part's row: those half of all apart come first, as in the tree.
  template <int kTasks, int kStep = 1>
  __device__ __forceinline__ double TreeSum(const double* p) const {
    if constexpr (kStep == kTasks) {
      return *p;
    } else {
      return TreeSum<kTasks, kStep * 2>(p) + TreeSum<kTasks, kStep * 2>(p + kStep * params_.strip);
    }
  }
  __device__ __forceinline__ double TaskSum(const double* p) const {
    switch (tasks_.lane_tasks_log) {
      case 0:
        return *p;
      case 1:
        return TreeSum<2>(p);
      case 2:
        return TreeSum<4>(p);
      case 3:
        return TreeSum<8>(p);
      case 4:
        return TreeSum<16>(p);
      default:
        return TreeSum<32>(p);
    }
  }

  __device__ __forceinline__ void Reduce(int step) {
    const int parts = StepParts(step);
    const bool all_precise = segment_.log != 0 && segment_.cols <= kPreciseColumns;
    if (!all_precise) Sum(step, parts);
    for (int i = static_cast<int>(threadIdx.x); i < parts * params_.strip; i += kBlockThreads) {
      const int part = i / params_.strip;
      const int row = i - part * params_.strip;
      if (row >= strip_.width) continue;
      const int index = step * params_.step_parts + part;
      Take(index, row, IsPrecise(index, row) ? PreciseRow(step, part, row) : PartStats(part, row));
    }
    if (params_.grouped) EndGroup(step * params_.step_parts + parts - 1);
    // A precise sum still reads the tile.
    if (segment_.log != 0 && step == 0) __syncthreads();
  }
  // The maxima and the tasks' sums of a step.
  __device__ __forceinline__ void Sum(int step, int parts) const {
    Maxima(step, parts);
    __syncthreads();
    if (tasks_.lane_tasks_log > 0) {
      ReduceMaxima(parts);
      __syncthreads();
    }
    Sums(step, parts);
    __syncthreads();
  }
  __device__ __forceinline__ Stats<C> PartStats(int part, int row) const {
    const C max = maxima_[part * params_.strip + row];
    const double sum = TaskSum(PartialSums() + ((part << tasks_.lane_tasks_log) * params_.strip + row));
    return {max, static_cast<C>(sum * ExpBase<C>(max, scale_).correction)};
  }
  // Whether a row's sum takes extra care; see PreciseStats.
  __device__ __forceinline__ bool IsPrecise(int index, int row) const {
    return segment_.log != 0 && FirstColumn(index) == 0 && ValidLength(segment_, Row(index, row)) <= kPreciseColumns;
  }
  // What PreciseStats gives, by one thread for a row of the step.
  __device__ Stats<C> PreciseRow(int step, int part, int row) const {
    const int index = step * params_.step_parts + part;
    const int limit = Limit(index, Columns(index), row);
    const unsigned char* const p = Stage(step) + part * params_.part_bytes + row * static_cast<int>(sizeof(In));
    C max = -Infinity<C>();
    for (int c = 0; c < limit; ++c) max = fmax(max, At(p, c));
    return {max, PreciseSum(p, limit, MaxPre(max, scale_))};
  }
  __device__ C At(const unsigned char* p, int column) const {
    return ToCompute(*reinterpret_cast<const In*>(p + column * params_.pitch));
  }
  // Columns 16 apart are added first, then 8, 4, 2, 1: taken in the order of their reversed bits, each finds the sum of
  // those it goes with waiting.
  __device__ C PreciseSum(const unsigned char* p, int limit, C max_pre) const {
    constexpr int kBits = 5;
    static_assert(kPreciseColumns <= 1 << kBits, "the order of columns");
    TwoPart<C> waiting[kBits + 1];
#pragma unroll 1
    for (int k = 0; k < 1 << kBits; ++k) {
      const int column = static_cast<int>(__brev(k) >> (32 - kBits));
      TwoPart<C> sum;
      if (column < limit) sum.high = scale_.PreciseExp(At(p, column), max_pre);
      int bit = 0;
      for (; k >> bit & 1; ++bit) sum.Add(waiting[bit].high, waiting[bit].low);
      waiting[bit] = sum;
    }
    return waiting[kBits].high + waiting[kBits].low;
  }

  // From the parts' statistics to the rows'.

  __device__ Stats<C>* Entry(int entry, int row) const;
  __device__ __forceinline__ void ClearTable() const;
  __device__ __forceinline__ void Finish(int index, int row, Stats<C> stats);
  // Takes the statistics of a part's row. In one step no two parts have the same entry.
  __device__ __forceinline__ void Take(int index, int row, Stats<C> stats);
  // After the block's last chunk of a group: the table's first 32 entries, one for each chunk, go to the group's
  // accumulator and are empty again.
  __device__ void EndGroup(int last);
  // Gives the block's own entries to the other blocks of the cluster.
  __device__ void Share(int first, int entries) const;
  __device__ __forceinline__ void FoldRows();

  // Results.

  __device__ __forceinline__ void WriteResults() const;
  // A thread stays with one unit of the strip and takes every so many columns of all parts.
  __device__ __forceinline__ void ComputeStep(int step) const;
  __device__ __forceinline__ void ComputePart(int step, int part, int column, int side, int unit) const;
  template <UnitForm kForm>
  __device__ __forceinline__ void ComputeColumns(int step, int part, int column, int side, int unit) const;

  const ColumnParams& params_;
  const DeviceSegment& segment_;
  const ColumnTasks& tasks_;
  const Strip& strip_;
  const Scale<C>& scale_;
  const Team team_;
  const int warp_;
  const int lane_;
  unsigned char* const tile_;
  C* const partial_;           // of the tasks: maxima, then sums (doubles)
  C* const maxima_;            // of the step's parts
  Stats<C>* const table_;      // of large rows
  Normalizer<C>* const rows_;  // of the rows that are done
};

}  // namespace softmax::kernels::cuda
