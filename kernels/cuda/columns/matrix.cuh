#pragma once

#include <new>

#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/blocks/exchange.cuh"
#include "kernels/cuda/columns/columns.h"
#include "kernels/cuda/columns/copy.cuh"
#include "kernels/cuda/columns/unit.cuh"

// The kernel for rows over another axis. A strip lies in shared memory as in memory, column after column. A thread
// reduces units of the columns that belong to one lane of the tree; the lanes of a warp, and then the tasks of the
// other lanes, are combined in the order of the tree. Results are of the type that the launch names.
namespace softmax::kernels::cuda {

template <typename In, int kUnit, ColumnMode kMode>
class ColumnMatrix {
 public:
  using C = ComputeOf<In>;

  __device__ __forceinline__ ColumnMatrix(const ColumnParams& params, unsigned char* shared, std::uint64_t* barrier,
                                          const Scale<C>& scale);
  __device__ void Run();

 private:
  static constexpr bool kSmall = kMode == ColumnMode::kSmall;
  static constexpr bool kHasChainSums = !kSmall && sizeof(C) == 4;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kSize = static_cast<int>(sizeof(In));
  static constexpr bool kAligned = kUnit * kSize == kVectorBytes;  // every column of a strip
  static constexpr int kReduced = kAligned ? ColumnReduced(kSize) : kUnit;
  using RawUnit = Unit<In, kUnit>;
  using Raw = typename RawUnit::Raw;
  using Reduced = Unit<In, kReduced>;

  // What lies where.

  __device__ bool IsCluster() const { return !kSmall && params_.cluster_log > 0; }
  // Parts of this block.
  __device__ int PartCount() const {
    const int blocks = 1 << params_.cluster_log;
    if (!params_.grouped) return (params_.chunks - rank_ + blocks - 1) >> params_.cluster_log;
    const int groups = (params_.chunks + kGroupChunks - 1) / kGroupChunks;
    const int count = (groups - rank_ + blocks - 1) >> params_.cluster_log;
    const bool has_last = ((groups - 1) & (blocks - 1)) == rank_;
    return count * kGroupChunks - (has_last ? groups * kGroupChunks - params_.chunks : 0);
  }
  // This block's part `index` of large rows: every chunk, or group of chunks, whose accumulators are the block's.
  __device__ int ChunkAt(int index) const {
    if (!params_.grouped) return rank_ + (index << params_.cluster_log);
    return (rank_ + (index / kGroupChunks << params_.cluster_log)) * kGroupChunks + index % kGroupChunks;
  }
  __device__ std::int64_t FirstColumn(int index) const {
    return kSmall ? 0 : static_cast<std::int64_t>(ChunkAt(index)) * kChunk;
  }
  __device__ int Columns(int index) const {
    if (kSmall) return static_cast<int>(segment_.cols);
    const std::int64_t left = segment_.cols - FirstColumn(index);
    return left < kChunk ? static_cast<int>(left) : kChunk;
  }
  __device__ int StepParts(int step) const {
    if (kSmall) return mine_;
    const int left = mine_ - step * params_.step_parts;
    return left < params_.step_parts ? left : params_.step_parts;
  }
  __device__ int IndexOf(int step, int part) const { return kSmall ? part : step * params_.step_parts + part; }
  // From a strip's first element in the first outer block to that of a part.
  __device__ std::int64_t Offset(int index, std::int64_t stride) const {
    return kSmall ? index * stride : FirstColumn(index) * segment_.inner;
  }
  __device__ unsigned char* Part(int step, int part) const {
    return tile_ + (kSmall ? 0 : step % params_.stages * params_.stage_bytes) + part * params_.part_bytes;
  }
  // Columns of a part, of `columns` in all, that count for row `i` of the strip.
  __device__ int Limit(int index, int columns, int i) const {
    if (segment_.lengths == nullptr) return columns;
    const std::int64_t length = ValidLength(segment_, Row(index, i)) - FirstColumn(index);
    return length <= 0 ? 0 : length < columns ? static_cast<int>(length) : columns;
  }
  __device__ std::int64_t Row(int index, int i) const {
    return (outer_ + (kSmall ? index : 0)) * segment_.inner + first_ + i;
  }

  // Starts the copies of a step.
  __device__ __forceinline__ void Read(int step) const;

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
    return ((parts + in_warp - 1) >> tasks_.warp_parts_log) * static_cast<int>(tasks_.groups.value)
           << tasks_.lane_tasks_log;
  }
  __device__ __forceinline__ Place PlaceOf(int task, int parts) const {
    const int side = lane_ & ((1 << tasks_.side_log) - 1);
    const int others = lane_ >> tasks_.side_log;
    const int rest = task >> tasks_.lane_tasks_log;
    const int part = Quotient(rest, tasks_.groups);
    Place place;
    place.task = task & ((1 << tasks_.lane_tasks_log) - 1);
    place.in_warp = others & ((1 << tasks_.warp_lanes_log) - 1);
    place.part = (part << tasks_.warp_parts_log) + (others >> tasks_.warp_lanes_log);
    place.unit = ((rest - part * static_cast<int>(tasks_.groups.value)) << tasks_.side_log) + side;
    place.lane = (place.in_warp << tasks_.lane_tasks_log) + place.task;
    place.active = place.part < parts && place.unit * kReduced < width_;
    return place;
  }
  // The lanes of a warp walk through the columns of a vector in different orders, so that they read different banks.
  // They only swap the operands of sums.
  __device__ __forceinline__ int Spread(const Place& place) const {
    return (place.in_warp >> tasks_.spread_shift << tasks_.spread_scale) & (kVector - 1);
  }
  __device__ __forceinline__ int TaskAt(const Place& place) const {
    return ((place.part << tasks_.lane_tasks_log) + place.task) * params_.strip + place.unit * kReduced;
  }
  // Elements that a row's length leaves out become -inf.
  __device__ void MaskStep(int step) const;
  // Calls f(e, raw) for the units of all slots in place e of their vectors. The order of the places is the lane's own,
  // see Spread.
  template <typename F>
  __device__ __forceinline__ void ForUnits(int step, const Place& place, F f) const;
  // Calls f(place) for the warp's tasks, of which `first` is the first one's.
  template <typename F>
  __device__ __forceinline__ void ForTasks(int parts, const Place& first, F f) const;
  // The maxima of the tasks.
  __device__ __forceinline__ void Maxima(int step, int parts, const Place& first) const;
  // The maxima of the parts, and the sums of the tasks.
  __device__ __forceinline__ void Sums(int step, int parts, const Place& first) const;
  __device__ __forceinline__ void PartMaxima(const Place& place, C (&max)[kReduced]) const;
  template <bool kShifted>
  __device__ __forceinline__ void SumExponentials(int step, const Place& place, const C (&max)[kReduced],
                                                  double (&sum)[kReduced]) const;

  // From the statistics of tasks to those of rows.

  __device__ __forceinline__ void CopyAndReduce();
  __device__ __forceinline__ void Reduce(int step);
  __device__ __forceinline__ Stats<C> PartStats(int part, int row) const;
  __device__ __forceinline__ double TaskSum(const double* p) const;
  // Whether a row's sum takes extra care; see PreciseStats.
  __device__ __forceinline__ bool IsPrecise(int index, int row) const;
  __device__ RowStats<C> PreciseRow(int step, int part, int row) const;
  __device__ TwoPart<C> PreciseSum(const unsigned char* p, int limit, C max) const;
  // Each block has the entries that are its rank modulo the cluster's size.
  __device__ __forceinline__ Stats<C>* Entry(int entry, int row) const { return table_ + entry * params_.strip + row; }
  // What is added to an entry step by step, and what it has at the end.
  __device__ __forceinline__ Chain<C> ChainAt(int entry, int row) const {
    const Stats<C> stats = *Entry(entry, row);
    return {stats.max, kHasChainSums ? chain_sums_[entry * params_.strip + row] : stats.sum};
  }
  __device__ __forceinline__ void Keep(int entry, int row, const Chain<C>& chain) const {
    *Entry(entry, row) = chain.End();
    if constexpr (kHasChainSums) chain_sums_[entry * params_.strip + row] = chain.sum;
  }
  // That are exchanged, or folded as they are.
  __device__ int Entries() const { return params_.grouped ? kAccumulators : params_.table_entries; }
  __device__ __forceinline__ void ClearTable() const;
  __device__ __forceinline__ void Finish(int index, int row, const RowStats<C>& stats);
  // Take the statistics of the parts: of rows that are done; of a step's chunks.
  __device__ __forceinline__ void TakeRows(int parts);
  __device__ __forceinline__ void TakeStep(int step, int parts);
  __device__ __forceinline__ RowStats<C> AnyStats(int step, int part, int row) const;
  // Calls f(k, row) for the first `count` parts' rows.
  template <typename F>
  __device__ __forceinline__ void ForRows(int count, F f) const;
  // After the block's last chunk of a group: the table's first 32 entries, one for each chunk, go to the group's
  // accumulator and are empty again.
  __device__ void EndGroup(int last);
  __device__ void SendTable() const;
  __device__ __forceinline__ void FoldRows();

  // Results.

  __device__ __forceinline__ void WriteResults() const;
  // A thread stays with one unit of the strip and takes every so many columns of all parts.
  __device__ __forceinline__ void ComputeUnits(int step) const;
  // The units of every `side`-th column of a part from `column` on.
  struct Walk {
    const unsigned char* from;
    unsigned char* to;
    std::int64_t to_step;
    int from_step;
    int column;
    int side;
    int unit;
  };
  __device__ __forceinline__ void ComputePart(int step, int part, int column, int side, int unit) const;
  template <UnitForm kForm>
  __device__ __forceinline__ void ComputeUsual(Walk* walk, int end, const RowTerms<C>* terms) const;
  __device__ __forceinline__ void ComputeLog(Walk* walk, int end, const Normalizer<C>* rows) const;
  // Of rows that are not usual or have lengths, or of other types: one element after another.
  __device__ void ComputeAny(Walk* walk, int index, int columns, const Normalizer<C>* rows) const;
  // Stores the results of a unit and goes to the next one.
  __device__ __forceinline__ void Put(Walk* walk, const C (&x)[kUnit]) const;
  // The scale again, where its parts cost no registers.
  __device__ __forceinline__ Scale<C> ParamScale() const {
    if constexpr (sizeof(C) == 8) {
      return Scale<C>(params_.scale_double);
    } else {
      return Scale<C>(params_.scale_float);
    }
  }

  const ColumnParams& params_;
  const DeviceSegment& segment_;
  const ColumnTasks& tasks_;
  const Scale<C>& scale_;
  const ClusterExchange exchange_;
  const int threads_ = static_cast<int>(blockDim.x);
  const int warp_ = static_cast<int>(threadIdx.x) / 32;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  double* const sums_;        // of the tasks
  C* const task_maxima_;      // likewise
  C* const maxima_;           // of the step's parts
  Stats<C>* const table_;     // of large rows
  double* const chain_sums_;  // of the table's entries, if kHasChainSums
  RowTerms<C>* const terms_;  // of the rows that are done
  Normalizer<C>* const rows_;
  unsigned char* tile_;  // the strip's first element in shared memory

  std::int64_t outer_;     // the first outer block
  std::int64_t first_;     // the first inner element
  std::uintptr_t input_;   // of the strip
  std::uintptr_t output_;  // likewise
  int width_;              // elements
  int rank_;               // in the cluster
  int mine_;               // parts of this block
  bool usual_ = true;      // the rows that are done have the usual form; see IsUsual
};

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ ColumnMatrix<In, kUnit, kMode>::ColumnMatrix(const ColumnParams& params,
                                                                        unsigned char* shared, std::uint64_t* barrier,
                                                                        const Scale<C>& scale)
    : params_(params),
      segment_(params.segment),
      tasks_(params.tasks),
      scale_(scale),
      exchange_(barrier),
      sums_(reinterpret_cast<double*>(shared + params.sums_offset)),
      task_maxima_(reinterpret_cast<C*>(shared + params.task_maxima_offset)),
      maxima_(reinterpret_cast<C*>(shared + params.maxima_offset)),
      table_(reinterpret_cast<Stats<C>*>(shared + params.table_offset)),
      chain_sums_(reinterpret_cast<double*>(table_ + params.table_entries * params.strip)),
      terms_(reinterpret_cast<RowTerms<C>*>(shared + params.terms_offset)),
      rows_(reinterpret_cast<Normalizer<C>*>(shared + params.rows_offset)) {
  const unsigned item = blockIdx.x >> params.cluster_log;
  const unsigned outer = item / static_cast<unsigned>(params.strips);
  rank_ = static_cast<int>(blockIdx.x - (item << params.cluster_log));
  outer_ = static_cast<std::int64_t>(outer) * (kSmall ? params.step_parts : 1);
  first_ = static_cast<std::int64_t>(item - outer * static_cast<unsigned>(params.strips)) * params.strip;
  const std::int64_t left = segment_.inner - first_;
  width_ = left < params.strip ? static_cast<int>(left) : params.strip;
  const std::int64_t outers = segment_.outer - outer_;
  mine_ = !kSmall ? PartCount() : outers < params.step_parts ? static_cast<int>(outers) : params.step_parts;
  input_ = reinterpret_cast<std::uintptr_t>(segment_.input) +
           static_cast<std::uintptr_t>(outer_ * segment_.input_stride + first_) * sizeof(In);
  output_ = reinterpret_cast<std::uintptr_t>(segment_.output) +
            static_cast<std::uintptr_t>(outer_ * segment_.output_stride + first_) * params_.output_bytes;
  tile_ = shared + (kAligned ? 0 : input_ % kVectorBytes);
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ void ColumnMatrix<In, kUnit, kMode>::Run() {
  if (IsCluster()) {
    exchange_.Expect(Entries() * width_ * static_cast<int>(sizeof(Stats<C>)));
    ClusterExchange::Arrive();
  }
  CopyAndReduce();
  if (!kSmall) FoldRows();
  usual_ = __syncthreads_or(usual_ ? 0 : 1) == 0;
  WriteResults();
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::CopyAndReduce() {
  const int steps = kSmall ? 1 : (mine_ + params_.step_parts - 1) / params_.step_parts;
  const int stages = kSmall ? 1 : params_.stages;
  for (int step = 0; step < stages; ++step) {
    if (step < steps) Read(step);
    CommitCopies();
  }
  if (!kSmall) ClearTable();
  for (int step = 0; step < steps; ++step) {
    WaitCopies(stages - 1);
    __syncthreads();
    if (segment_.lengths != nullptr) MaskStep(step);
    if (IsCluster() && step == 0) ClusterExchange::Begin();
    Reduce(step);
    if (!kSmall && step + stages < steps) Read(step + stages);
    CommitCopies();
  }
}

template <typename In, int kUnit, ColumnMode kMode>
__device__ __forceinline__ void ColumnMatrix<In, kUnit, kMode>::Read(int step) const {
  const int parts = StepParts(step);
  const bool whole = params_.strips == 1;
  const bool together = kSmall && params_.dense && whole;
  // What may be read of the tensor: the outer blocks at hand.
  const std::uintptr_t begin = input_ - static_cast<std::uintptr_t>(first_) * sizeof(In);
  const std::int64_t length = (kSmall ? mine_ - 1 : 0) * segment_.input_stride + segment_.cols * segment_.inner;
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(length) * sizeof(In);
  Lines lines;
  lines.memory_pitch = segment_.inner * kSize;
  lines.shared_pitch = params_.pitch;
  lines.side = params_.line_vectors;
#pragma unroll 1
  for (int part = 0; part < (together ? 1 : parts); ++part) {
    const int index = IndexOf(step, part);
    const int columns = Columns(index);
    lines.memory = input_ + static_cast<std::uintptr_t>(Offset(index, segment_.input_stride)) * kSize;
    lines.shared = Part(step, part);
    lines.count = whole ? 1 : columns;
    lines.bytes = whole ? (together ? parts : 1) * columns * static_cast<int>(segment_.inner) * kSize : width_ * kSize;
    if constexpr (kAligned) {
      ReadVectors(lines);
    } else {
      ReadLines<In>(lines, begin, end);
    }
  }
}

}  // namespace softmax::kernels::cuda
