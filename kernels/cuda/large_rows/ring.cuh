#pragma once

#include <climits>

#include "kernels/cuda/blocks/grid_table.cuh"
#include "kernels/cuda/core/slice.cuh"
#include "kernels/cuda/large_rows/wide.cuh"
#include "kernels/cuda/large_rows/wide.h"
#include "kernels/cuda/small_rows/small.cuh"

// Many bytes in rows wider than a cluster holds: one block a multiprocessor, whose warps have each a ring of places for
// units of one or two chunks in shared memory and run on their own. While a warp's units wait for the statistics of
// their row it reads those of the next one, and a place is read into again as soon as its result has left it, so that
// the memory does not wait for the blocks' exchange. Bulk copies, since a fence waits for copies that a thread has
// started itself. Two chunks together take little longer than one, most of whose time goes in steps that wait for each
// other.
//
// Where the warps are few they have registers for more units, which move there when shared memory is full. Results
// leave from shared memory first, so that there is room to read.
//
// A block's units are read in order, and only so many at a time as keep the memory busy: those on their way take places
// from those that wait. Groups of chunks go round the blocks. One warp more folds the rows' statistics.
//
// No block waits in vain for the first row that is not complete. A warp has places, in shared memory and registers
// together, for all units that it has of one row, and begins units in order: while one of this row's is not begun, it
// holds none of later rows, and those of earlier rows leave, as their statistics are known. So some place is free. If
// none is in shared memory, a unit that has been reduced moves to registers; one that is on its way will arrive. And a
// block's first unit that is not reduced waits for no other: the groups before its own are all told.
namespace softmax::kernels::cuda {

constexpr int kRingGroups = 4;  // whose statistics are being gathered
constexpr int kRingTurns = 16;  // groups that a block has begun and is not done with

template <typename C>
struct RingTables {
  struct Row {
    Stats<C> stats;
    C log_high;
    C log_low;
  };
  Stats<C> chunks[kRingGroups][kGroupChunks];
  Row rows[kRingTurns];     // of the groups' rows
  int counts[kRingGroups];  // units that have come
  int turns[kRingGroups];   // the group that has the place
  int oldest[32];           // each warp's oldest turn that it is not done with
  int arrived;              // the block's units that have come
  int ready;                // turns whose row's statistics are known
  std::uint64_t barriers[kRingPlaces];
};
static_assert(sizeof(RingTables<float>) <= kRingTableBytes, "as the plan has it");

template <typename In, bool kLog>
class RingRows {
 public:
  using C = ComputeOf<In>;
  using Tables = RingTables<C>;
  static constexpr int kWarps = RingShapeOf(sizeof(In), kLog).warps;
  static constexpr int kPlaces = RingShapeOf(sizeof(In), kLog).places;
  static constexpr int kKept = RingShapeOf(sizeof(In), kLog).kept;
  static constexpr int kEach = RingShapeOf(sizeof(In), kLog).chunks;
  static constexpr int kGroupUnits = kGroupChunks / kEach;
  static constexpr int kUnit = kEach * Element<In>::kChunk;  // columns

  __device__ __forceinline__ RingRows(const MatrixParams& params, uint4* shared, Tables* tables)
      : params_(params), shared_(shared), tables_(tables), scale_(ScaleOf<C>(params)), table_(params) {}

  __device__ __forceinline__ static void Clear(Tables* tables) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kRingGroups) {
      tables->counts[thread] = 0;
      tables->turns[thread] = thread;
    }
    if (thread < 32) tables->oldest[thread] = thread < kWarps ? 0 : INT_MAX;
    if (thread < kWarps * kPlaces) StartBarrier(&tables->barriers[thread]);
    if (thread == 0) tables->arrived = tables->ready = 0;
  }

  // By each of the warps that take units.
  __device__ __forceinline__ void Run() {
    next_.offset = number_ = warp_;
    next_.row = static_cast<int>(blockIdx.x) / params_.groups;
    next_.group = static_cast<int>(blockIdx.x) - next_.row * params_.groups;
    Settle();
    TellOldest();
#pragma unroll 1
    for (;;) {
      while (MayStart()) Start();
      bool idle = true;
      if (loading_ != 0 && HasArrived()) {
        Reduce();
        idle = false;
      }
      if (const std::uint32_t ready = Ready(); ready != 0) {
        Store(ready);
        TellOldest();
        idle = false;
      }
      if constexpr (kKept > 0) {
        if (HasNext() && (free_ & kSharedPlaces) == 0 && (free_ & kAllPlaces) != 0) Move();
      }
      if (idle) {
        if (loading_ == 0 && held_ == 0 && !HasNext()) break;
        __nanosleep(20);
      }
    }
    if (Lane() == 0) Volatile(&tables_->oldest[warp_]) = INT_MAX;
  }

  // By the last warp.
  __device__ __forceinline__ void FoldRows() {
    int row = -1;
    int end = 0;  // of the block's units of rows up to this one
    Stats<C> stats = NoStats<C>();
    C low = 0;
    C high = 0;
    int item = static_cast<int>(blockIdx.x);
#pragma unroll 1
    for (int turn = 0; item < Items(); ++turn, item += static_cast<int>(gridDim.x)) {
      if (item / params_.groups != row) {
        row = item / params_.groups;
#pragma unroll 1
        for (int group = item - row * params_.groups; group < params_.groups; group += static_cast<int>(gridDim.x)) {
          end += UnitsOf(group);
        }
        // The other blocks are not done sooner, as a rule.
        while (From(0, Volatile(&tables_->arrived)) < end) __nanosleep(40);
        stats = Fold(row);
        if (kLog) high = Normalizer<C>::LogOf(scale_, stats, &low);
      }
      while (__any_sync(0xffffffffu, Volatile(&tables_->oldest[Lane()]) <= turn - kRingTurns)) __nanosleep(20);
      if (Lane() == 0) {
        table_.LeavePlace(row);
        tables_->rows[turn % kRingTurns] = {stats, high, low};
        __threadfence_block();
        Volatile(&tables_->ready) = turn + 1;
      }
      __syncwarp();
    }
  }

  static constexpr int kFoldingWarp = kWarps;

 private:
  static constexpr int kSlots = kEach * kChunkSlots;  // of a lane in a unit
  static constexpr int kUnitVectors = kSlots * 32;
  static constexpr std::uint32_t kSharedPlaces = (1u << kPlaces) - 1;
  static constexpr std::uint32_t kAllPlaces = (1u << (kPlaces + kKept)) - 1;
  static constexpr int kMostLoads = 4;
  static_assert(kPlaces <= 14 && kPlaces + kKept <= 16, "numbers in four bits, see Push, and bits of free_");

  // A unit of chunks among those of the block: unit `offset` of group `group` of row `row`.
  struct Cursor {
    int turn = 0;  // of the block's groups
    int offset = 0;
    int row = 0;
    int group = 0;
  };

  template <typename T>
  __device__ __forceinline__ static volatile T& Volatile(T* at) {
    return *at;
  }
  __device__ __forceinline__ static int Lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ __forceinline__ int Items() const { return static_cast<int>(params_.rows) * params_.groups; }
  __device__ __forceinline__ int ChunksOf(int group) const {
    return min(kGroupChunks, params_.chunks - group * kGroupChunks);
  }
  __device__ __forceinline__ int UnitsOf(int group) const { return (ChunksOf(group) + kEach - 1) / kEach; }

  // Finds the unit that the cursor's offset is counted to.
  __device__ __forceinline__ void Settle() {
#pragma unroll 1
    while (HasNext() && next_.offset >= UnitsOf(next_.group)) {
      next_.offset -= UnitsOf(next_.group);
      ++next_.turn;
      next_.group += static_cast<int>(gridDim.x);
#pragma unroll 1
      for (; next_.group >= params_.groups; next_.group -= params_.groups) ++next_.row;
    }
  }
  __device__ __forceinline__ bool HasNext() const { return next_.row < params_.rows; }
  __device__ __forceinline__ bool MayStart() const {
    return HasNext() && (free_ & kSharedPlaces) != 0 && Count(loading_) < kMostLoads &&
           number_ < From(0, Volatile(&tables_->arrived)) + params_.part_window;
  }

  // Starts reading the next unit.
  __device__ __forceinline__ void Start() {
    const int place = __ffs(static_cast<int>(free_ & kSharedPlaces)) - 1;
    free_ &= free_ - 1;
    const int unit = next_.group * kGroupUnits + next_.offset;
    if (Lane() == place) {
      row_ = next_.row;
      unit_ = unit;
      turn_ = next_.turn;
    }
    const int column = unit * kUnit;
    const int n = static_cast<int>(ValidLength(params_, next_.row)) - column;
    __syncwarp();  // all have read what was there before
    slice_.StartBulk(Input(next_.row, column), n, AroundOf<In>(params_, next_.row, column, n), kEach, Place(place),
                     Barrier(place));
    Push(&loading_, place);
    next_.offset += kWarps;
    number_ += kWarps;
    Settle();
  }
  __device__ __forceinline__ uint4* Place(int place) const {
    return shared_ + (warp_ * kPlaces + place) * kUnitVectors;
  }
  __device__ __forceinline__ std::uint64_t* Barrier(int place) const {
    return &tables_->barriers[warp_ * kPlaces + place];
  }
  __device__ __forceinline__ const In* Input(int row, int column) const {
    return static_cast<const In*>(params_.input) + row * params_.input_stride + column;
  }

  // Queues of places, four bits each: one more than the place.
  __device__ __forceinline__ static int Count(std::uint32_t queue) {
    return (35 - __clz(static_cast<int>(queue))) >> 2;
  }
  __device__ __forceinline__ static int Front(std::uint32_t queue) { return static_cast<int>(queue & 15) - 1; }
  __device__ __forceinline__ static void Push(std::uint32_t* queue, int place) {
    *queue |= static_cast<std::uint32_t>(place + 1) << (4 * Count(*queue));
  }
  __device__ __forceinline__ static int Pop(std::uint32_t* queue) {
    const int place = Front(*queue);
    *queue >>= 4;
    return place;
  }
  __device__ __forceinline__ int From(int place, int value) const { return __shfl_sync(0xffffffffu, value, place); }

  __device__ __forceinline__ bool HasArrived() const {
    const int place = Front(loading_);
    return __all_sync(0xffffffffu, HasBulkLoad(Barrier(place), free_ >> (16 + place) & 1));
  }
  // The statistics of the oldest unit that is being read.
  __device__ __forceinline__ void Reduce() {
    __syncwarp();  // the ends that lanes have copied
    const int place = Pop(&loading_);
    free_ ^= 1u << (16 + place);
    held_ |= 1u << place;
    if (Lane() == 0) atomicAdd(&tables_->arrived, 1);
    Stats<C> stats[kEach];
    UnitStats(place, stats);
    const int unit = From(place, unit_);
    const int turn = From(place, turn_);
    while (Volatile(&tables_->turns[turn % kRingGroups]) != turn) __nanosleep(40);
    Stats<C>* const to = tables_->chunks[turn % kRingGroups] + unit % kGroupUnits * kEach;
    if (Lane() == 0) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) to[i] = stats[i];  // those of chunks that the row has not are not read
    }
    Publish(From(place, row_), unit / kGroupUnits, turn);
  }
  __device__ __forceinline__ void UnitStats(int place, Stats<C> (&stats)[kEach]) {
    const int row = From(place, row_);
    const int column = From(place, unit_) * kUnit;
    const int valid = static_cast<int>(ValidLength(params_, row));
    if (valid >= column + kUnit) {
      const uint4* const from = Place(place) + Lane();
      const auto load = [&](int i, uint4(&v)[kChunkSlots]) {
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) v[j] = from[(i * kChunkSlots + j) * 32];
      };
      ChunksStats<In, kEach, false>(load, 0, scale_, stats);
      return;
    }
    slice_.Attach(Input(row, column), valid - column, kEach, Place(place));
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      stats[i] = slice_.AnyChunkStats(i, column == 0 && i == 0 ? valid : kManyColumns, scale_);
    }
  }
  // Moves a unit that is held from shared memory to registers that are free.
  __device__ __forceinline__ void Move() {
    const std::uint32_t shared = held_ & kSharedPlaces;
    if (shared == 0) return;
    const int place = 31 - __clz(static_cast<int>(shared));
    const int kept = __ffs(static_cast<int>((free_ & kAllPlaces) >> kPlaces)) - 1;
    Keep<0>(kept, Place(place) + Lane());
    const int row = From(place, row_);
    const int unit = From(place, unit_);
    const int turn = From(place, turn_);
    if (Lane() == kPlaces + kept) {
      row_ = row;
      unit_ = unit;
      turn_ = turn;
    }
    const std::uint32_t both = 1u << place | 1u << (kPlaces + kept);
    free_ ^= both;
    held_ ^= both;
    __syncwarp();
  }
  template <int k>
  __device__ __forceinline__ void Keep(int kept, const uint4* from) {
    if constexpr (k < kKept) {
      if (k != kept) return Keep<k + 1>(kept, from);
#pragma unroll
      for (int j = 0; j < kSlots; ++j) kept_[k * kSlots + j] = from[j * 32];
    }
  }
  template <int k>
  __device__ __forceinline__ void StoreKept(int kept, In* to, int n, int valid, const Normalizer<C>& normalize) const {
    if constexpr (k < kKept) {
      if (k != kept) return StoreKept<k + 1>(kept, to, n, valid, normalize);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        constexpr int kChunk = Element<In>::kChunk;
        uint4 v[kChunkSlots];
#pragma unroll
        for (int j = 0; j < kChunkSlots; ++j) v[j] = kept_[k * kSlots + i * kChunkSlots + j];
        slice_.StoreKept(to + i * kChunk, n - i * kChunk, valid - i * kChunk, v, normalize);
      }
    }
  }
  // Counts a unit of a group; the last one's warp tells the other blocks.
  __device__ __forceinline__ void Publish(int row, int group, int turn) {
    const int place = turn % kRingGroups;
    const int chunks = ChunksOf(group);
    int before = 0;
    if (Lane() == 0) {
      __threadfence_block();
      before = atomicAdd(&tables_->counts[place], 1);
    }
    if (From(0, before) + 1 < UnitsOf(group)) return;
    __threadfence_block();
    Stats<C> mine = NoStats<C>();
    if (Lane() < chunks) {
      mine.max = Volatile(&tables_->chunks[place][Lane()].max);
      mine.sum = Volatile(&tables_->chunks[place][Lane()].sum);
    }
    __syncwarp();
    if (Lane() == 0) {
      tables_->counts[place] = 0;
      __threadfence_block();
      Volatile(&tables_->turns[place]) = turn + kRingGroups;
    }
    table_.AwaitPlace(row);
    const Stats<C> all = CombineLanes(mine, scale_);
    if (Lane() == 0) table_.Publish(row, params_.groups, group, all);
    __syncwarp();
  }
  // The units that are held and whose row's statistics are known.
  __device__ __forceinline__ std::uint32_t Ready() const {
    if (held_ == 0) return 0;
    const int ready = From(0, Volatile(&tables_->ready));
    return __ballot_sync(0xffffffffu, turn_ < ready) & held_;
  }
  // Stores one of them: from shared memory if there are any, for more loads.
  __device__ __forceinline__ void Store(std::uint32_t ready) {
    const int place = __ffs(static_cast<int>(ready)) - 1;
    held_ ^= 1u << place;
    const int row = From(place, row_);
    const int column = From(place, unit_) * kUnit;
    const int valid = static_cast<int>(ValidLength(params_, row));
    __threadfence_block();
    const auto& known = tables_->rows[From(place, turn_) % kRingTurns];
    In* const to = static_cast<In*>(params_.output) + row * params_.output_stride + column;
    const auto cols = static_cast<int>(params_.cols);
    const auto store = [&](const Normalizer<C>& normalize) {
      if (kKept > 0 && place >= kPlaces) {
        StoreKept<0>(place - kPlaces, to, cols - column, valid - column, normalize);
        return;
      }
      slice_.Attach(Input(row, column), valid - column, kEach, Place(place));
      slice_.template Store<true>(to, cols - column, valid - column, column == 0, normalize);
    };
    if constexpr (kLog) {
      store(Normalizer<C>(scale_, known.stats.max, known.log_high, known.log_low, valid == 0));
    } else {
      store(Normalizer<C>(scale_, known.stats, false, valid == 0));
    }
    free_ |= 1u << place;
  }
  // For those who write what is told of later groups over what was told of earlier ones.
  __device__ __forceinline__ void TellOldest() {
    int oldest = HasNext() ? next_.turn : INT_MAX;
    if (loading_ != 0) oldest = min(oldest, From(Front(loading_), turn_));
    if (held_ != 0) {
      const bool is_held = (held_ >> Lane() & 1) != 0;
      oldest = min(oldest, __reduce_min_sync(0xffffffffu, is_held ? turn_ : INT_MAX));
    }
    if (Lane() == 0) Volatile(&tables_->oldest[warp_]) = oldest;
  }

  // The statistics of a row, as soon as all are there: as RowFold folds them.
  __device__ __forceinline__ Stats<C> Fold(int row) const {
    constexpr int kAtOnce = kKept == 0 ? 8 : 16;
    const int entries = params_.groups;
    auto low = Chain<C>::From(NoStats<C>());
    auto high = low;
#pragma unroll 1
    for (int first = 0; first < entries; first += 32 * kAtOnce) {
      Stats<C> next[kAtOnce];
      table_.AwaitSome(row, entries, first + Lane(), entries, next);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + 32 * i >= entries) break;
        if (i % 2 == 0) {
          low.Add(next[i], scale_);
        } else {
          high.Add(next[i], scale_);
        }
      }
    }
    return CombineLanes(CombineTwo(low.End(), high.End(), scale_), scale_);
  }

  const MatrixParams& params_;
  uint4* const shared_;
  Tables* const tables_;
  const Scale<C> scale_;
  GridTable<C> table_;
  const int warp_ = static_cast<int>(threadIdx.x) / 32;
  Slice<In, false, kLog, kEach> slice_;
  Cursor next_;
  int number_ = 0;                   // of the next unit among the block's
  std::uint32_t free_ = kAllPlaces;  // places, those in registers last; from bit 16 on the phases of their barriers
  std::uint32_t loading_ = 0;
  std::uint32_t held_ = 0;
  uint4 kept_[kKept == 0 ? 1 : kKept * kSlots];
  // Lane i: what lies in place i.
  int row_ = 0;
  int unit_ = 0;
  int turn_ = 0;
};

template <typename In, bool kLog>
__global__ void __launch_bounds__(RingShapeOf(sizeof(In), kLog).Threads(), 1)
    RingMatrixKernel(const __grid_constant__ MatrixParams params) {
#if __CUDA_ARCH__ >= 900
  using C = ComputeOf<In>;
  using Rows = RingRows<In, kLog>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  auto* const tables =
      reinterpret_cast<RingTables<C>*>(dynamic + Rows::kWarps * Rows::kPlaces * Rows::kEach * kChunkBytes);
  Rows::Clear(tables);
  __syncthreads();
  Rows rows(params, reinterpret_cast<uint4*>(dynamic), tables);
  if (static_cast<int>(threadIdx.x) / 32 == Rows::kFoldingWarp) {
    rows.FoldRows();
  } else {
    rows.Run();
  }
  GridTable<C>::End(params);
  Complete(params.completion);
#endif
}

template <typename In>
const WideKernels& WideKernelsOf() {
  static const WideKernels kernels{{reinterpret_cast<const void*>(&RingMatrixKernel<In, false>),
                                    reinterpret_cast<const void*>(&RingMatrixKernel<In, true>)}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
