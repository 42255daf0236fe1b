#pragma once

#include <climits>

#include "kernels/cuda/grid_table.cuh"
#include "kernels/cuda/matrix_small.cuh"
#include "kernels/cuda/matrix_wide.cuh"
#include "kernels/cuda/slice.cuh"
#include "kernels/cuda/wide.h"

// Many bytes in rows wider than a cluster holds: one block a multiprocessor, whose warps have each a ring of places for
// chunks in shared memory and run on their own. While a warp's chunks wait for the statistics of their row it reads
// those of the next one, and a place is read into again as soon as its result has left it, so that the memory does not
// wait for the blocks' exchange. Bulk copies, since a fence waits for copies that a thread has started itself.
//
// Groups of chunks go round the blocks. Two warps more name them to the others and fold the rows' statistics.
//
// No block waits in vain: of a row whose earlier rows are complete, each warp has places for all of its chunks.
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
  Row rows[kRingTurns];  // of the groups' rows
  int items[kRingTurns];
  int counts[kRingGroups];                           // chunks that have come
  int turns[kRingGroups];                            // the group that has the place
  int oldest[32];                                    // each warp's oldest turn that it is not done with
  int wanted;                                        // turns that a warp waits for
  int taken;                                         // turns whose item is known
  int ready;                                         // turns whose row's statistics are known
  std::uint64_t barriers[kRingWarps * kRingPlaces];  // of the places
};
static_assert(sizeof(RingTables<float>) <= kRingTableBytes, "as the plan has it");

template <typename In, bool kLog>
class RingRows {
 public:
  using C = ComputeOf<In>;
  using Tables = RingTables<C>;

  __device__ __forceinline__ RingRows(const MatrixParams& params, uint4* shared, Tables* tables)
      : params_(params), shared_(shared), tables_(tables), scale_(ScaleOf<C>(params)), table_(params) {}

  __device__ __forceinline__ static void Clear(Tables* tables) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kRingGroups) {
      tables->counts[thread] = 0;
      tables->turns[thread] = thread;
    }
    const bool is_told = thread < kRingWarps || thread == kFoldingWarp;
    if (thread < 32) tables->oldest[thread] = is_told ? 0 : INT_MAX;
    if (thread < kRingWarps * kRingPlaces) StartBarrier(&tables->barriers[thread]);
    if (thread == 0) tables->wanted = tables->taken = tables->ready = 0;
  }

  // By each of the warps that take chunks.
  __device__ __forceinline__ void Run() {
    next_.offset = warp_;
#pragma unroll 1
    for (;;) {
      if (next_.item == kUnknown) Settle();
      while (HasNext() && loads_ < params_.part_window && free_ != 0) Start();
      bool idle = true;
      if (loads_ > 0 && HasArrived()) {
        Reduce();
        idle = false;
      }
      if (holds_ > 0 && IsReady()) {
        Store();
        idle = false;
      }
      if (idle) {
        if (loads_ == 0 && holds_ == 0 && next_.item == kEnd) break;
        __nanosleep(20);
      }
      TellOldest();
    }
    if (Lane() == 0) Volatile(&tables_->oldest[warp_]) = INT_MAX;
  }

  // By the first warp after them: names the block's next group when a warp wants it.
  __device__ __forceinline__ void NameItems() {
    int item = static_cast<int>(blockIdx.x);
#pragma unroll 1
    for (int turn = 0;; ++turn) {
      while (Volatile(&tables_->wanted) < turn) __nanosleep(20);
      while (__any_sync(0xffffffffu, Volatile(&tables_->oldest[Lane()]) <= turn - kRingTurns)) __nanosleep(20);
      if (turn > 0) item += static_cast<int>(gridDim.x);
      if (item >= Items()) item = kEnd;
      if (Lane() == 0) {
        tables_->items[turn % kRingTurns] = item;
        __threadfence_block();
        Volatile(&tables_->taken) = turn + 1;
      }
      __syncwarp();
      if (item == kEnd) return;
    }
  }

  // By the last warp.
  __device__ __forceinline__ void FoldRows() {
    int row = -1;
    Stats<C> stats = NoStats<C>();
    C low = 0;
    C high = 0;
#pragma unroll 1
    for (int turn = 0;; ++turn) {
      while (Volatile(&tables_->taken) <= turn) __nanosleep(20);
      __threadfence_block();
      const int item = Volatile(&tables_->items[turn % kRingTurns]);
      if (item == kEnd) break;
      if (item / params_.groups != row) {
        row = item / params_.groups;
        stats = Fold(row);
        if (kLog) high = Normalizer<C>::LogOf(scale_, stats, &low);
      }
      if (Lane() == 0) {
        table_.LeavePlace(row);
        tables_->rows[turn % kRingTurns] = {stats, high, low};
        __threadfence_block();
        Volatile(&tables_->ready) = turn + 1;
        Volatile(&tables_->oldest[warp_]) = turn + 1;
      }
      __syncwarp();
    }
    if (Lane() == 0) Volatile(&tables_->oldest[warp_]) = INT_MAX;
  }

  static constexpr int kNamingWarp = kRingWarps;
  static constexpr int kFoldingWarp = kRingWarps + 1;

 private:
  static constexpr int kUnknown = -1;
  static constexpr int kEnd = INT_MAX;

  // A chunk among those of the block: chunk `offset` of group `group` of row `row`.
  struct Cursor {
    int item = kUnknown;  // of all groups of all rows
    int turn = 0;         // of the block's
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

  // Finds the chunk that the cursor's offset is counted to, as far as groups have been named.
  __device__ __forceinline__ void Settle() {
    const int taken = From(0, Volatile(&tables_->taken));
#pragma unroll 1
    for (;; ++next_.turn) {
      next_.item = kUnknown;
      if (next_.turn >= taken) break;
      next_.item = Volatile(&tables_->items[next_.turn % kRingTurns]);
      if (next_.item == kEnd) return;
      next_.row = next_.item / params_.groups;
      next_.group = next_.item - next_.row * params_.groups;
      const int chunks = ChunksOf(next_.group);
      if (next_.offset < chunks) return;
      next_.offset -= chunks;
    }
    if (Lane() == 0 && Volatile(&tables_->wanted) < next_.turn) atomicMax(&tables_->wanted, next_.turn);
    __syncwarp();
  }
  __device__ __forceinline__ bool HasNext() const { return next_.item != kUnknown && next_.item != kEnd; }
  __device__ __forceinline__ void Step() {
    next_.offset += kRingWarps;
    const int chunks = ChunksOf(next_.group);
    if (next_.offset < chunks) return;
    next_.offset -= chunks;
    ++next_.turn;
    Settle();
  }

  // Starts reading the next chunk.
  __device__ __forceinline__ void Start() {
    const int place = __ffs(static_cast<int>(free_)) - 1;
    free_ &= free_ - 1;
    const int chunk = next_.group * kGroupChunks + next_.offset;
    if (Lane() == place) {
      row_ = next_.row;
      chunk_ = chunk;
      turn_ = next_.turn;
    }
    const int column = chunk * Element<In>::kChunk;
    const int n = static_cast<int>(ValidLength(params_, next_.row)) - column;
    __syncwarp();  // all have read what was there before
    slice_.StartBulk(Input(next_.row, column), n, AroundOf<In>(params_, next_.row, column, n), 1, Place(place),
                     Barrier(place));
    Push(&loading_, &loads_, place);
    Step();
  }
  __device__ __forceinline__ uint4* Place(int place) const {
    return shared_ + (warp_ * kRingPlaces + place) * kChunkSlots * 32;
  }
  __device__ __forceinline__ std::uint64_t* Barrier(int place) const {
    return &tables_->barriers[warp_ * kRingPlaces + place];
  }
  __device__ __forceinline__ const In* Input(int row, int column) const {
    return static_cast<const In*>(params_.input) + row * params_.input_stride + column;
  }

  // Queues of places.
  __device__ __forceinline__ static void Push(std::uint32_t* queue, int* count, int place) {
    *queue |= static_cast<std::uint32_t>(place) << (4 * *count);
    ++*count;
  }
  __device__ __forceinline__ static int Pop(std::uint32_t* queue, int* count) {
    const int place = static_cast<int>(*queue & 15);
    *queue >>= 4;
    --*count;
    return place;
  }
  __device__ __forceinline__ int From(int place, int value) const { return __shfl_sync(0xffffffffu, value, place); }

  __device__ __forceinline__ bool HasArrived() const {
    const auto place = static_cast<int>(loading_ & 15);
    return __all_sync(0xffffffffu, HasBulkLoad(Barrier(place), phases_ >> place & 1));
  }
  // The statistics of the oldest chunk that is being read.
  __device__ __forceinline__ void Reduce() {
    __syncwarp();  // the ends that lanes have copied
    const int place = Pop(&loading_, &loads_);
    phases_ ^= 1u << place;
    const int row = From(place, row_);
    const int chunk = From(place, chunk_);
    const int turn = From(place, turn_);
    const int column = chunk * Element<In>::kChunk;
    const int valid = static_cast<int>(ValidLength(params_, row));
    slice_.Attach(Input(row, column), valid - column, 1, Place(place));
    const Stats<C> stats = slice_.AnyChunkStats(0, column == 0 ? valid : kManyColumns, scale_);
    while (Volatile(&tables_->turns[turn % kRingGroups]) != turn) __nanosleep(40);
    if (Lane() == 0) tables_->chunks[turn % kRingGroups][chunk % kGroupChunks] = stats;
    Publish(row, chunk / kGroupChunks, turn);
    Push(&held_, &holds_, place);
  }
  // Counts a chunk of a group; the last one's warp tells the other blocks.
  __device__ __forceinline__ void Publish(int row, int group, int turn) {
    const int place = turn % kRingGroups;
    const int chunks = ChunksOf(group);
    int before = 0;
    if (Lane() == 0) {
      __threadfence_block();
      before = atomicAdd(&tables_->counts[place], 1);
    }
    if (From(0, before) + 1 < chunks) return;
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
  // Whether the statistics of the row of the oldest chunk that is held are known.
  __device__ __forceinline__ bool IsReady() const {
    return From(static_cast<int>(held_ & 15), turn_) < From(0, Volatile(&tables_->ready));
  }
  __device__ __forceinline__ void Store() {
    const int place = Pop(&held_, &holds_);
    const int row = From(place, row_);
    const int column = From(place, chunk_) * Element<In>::kChunk;
    const int valid = static_cast<int>(ValidLength(params_, row));
    __threadfence_block();
    const auto& known = tables_->rows[From(place, turn_) % kRingTurns];
    slice_.Attach(Input(row, column), valid - column, 1, Place(place));
    In* const to = static_cast<In*>(params_.output) + row * params_.output_stride + column;
    const auto cols = static_cast<int>(params_.cols);
    if constexpr (kLog) {
      const Normalizer<C> normalize(scale_, known.stats.max, known.log_high, known.log_low, valid == 0);
      slice_.template Store<true>(to, cols - column, valid - column, column == 0, normalize);
    } else {
      const Normalizer<C> normalize(scale_, known.stats, false, valid == 0);
      slice_.template Store<true>(to, cols - column, valid - column, column == 0, normalize);
    }
    free_ |= 1u << place;
  }
  // For those who write what is told of later groups over what was told of earlier ones.
  __device__ __forceinline__ void TellOldest() {
    int oldest = next_.item == kEnd ? INT_MAX : next_.turn;
    if (loads_ > 0) oldest = min(oldest, From(static_cast<int>(loading_ & 15), turn_));
    if (holds_ > 0) oldest = min(oldest, From(static_cast<int>(held_ & 15), turn_));
    if (Lane() == 0 && oldest != told_) Volatile(&tables_->oldest[warp_]) = oldest;
    told_ = oldest;
  }

  // The statistics of a row, as soon as all are there: as RowFold folds them.
  __device__ __forceinline__ Stats<C> Fold(int row) const {
    constexpr int kAtOnce = 8;
    const int entries = params_.groups;
    Stats<C> low = NoStats<C>();
    Stats<C> high = NoStats<C>();
#pragma unroll 1
    for (int first = 0; first < entries; first += 32 * kAtOnce) {
      Stats<C> next[kAtOnce];
      table_.AwaitSome(row, entries, first + Lane(), next);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + 32 * i >= entries) break;
        if (i % 2 == 0) {
          low = CombineTwo(low, next[i], scale_);
        } else {
          high = CombineTwo(high, next[i], scale_);
        }
      }
    }
    return CombineLanes(CombineTwo(low, high, scale_), scale_);
  }

  const MatrixParams& params_;
  uint4* const shared_;
  Tables* const tables_;
  const Scale<C> scale_;
  GridTable<C> table_;
  const int warp_ = static_cast<int>(threadIdx.x) / 32;
  Slice<In, false, kLog, 1> slice_;
  Cursor next_;
  std::uint32_t free_ = (1u << kRingPlaces) - 1;
  std::uint32_t phases_ = 0;  // of the places' barriers
  std::uint32_t loading_ = 0;
  std::uint32_t held_ = 0;
  int loads_ = 0;
  int holds_ = 0;
  int told_ = 0;
  // Lane i: what lies in place i.
  int row_ = 0;
  int chunk_ = 0;
  int turn_ = 0;
};

template <typename In, bool kLog>
__global__ void __launch_bounds__(kRingThreads, 1) RingMatrixKernel(const __grid_constant__ MatrixParams params) {
#if __CUDA_ARCH__ >= 900
  using C = ComputeOf<In>;
  using Rows = RingRows<In, kLog>;
  extern __shared__ __align__(128) unsigned char dynamic[];
  auto* const tables = reinterpret_cast<RingTables<C>*>(dynamic + kRingWarps * kRingPlaces * kChunkBytes);
  Rows::Clear(tables);
  __syncthreads();
  Rows rows(params, reinterpret_cast<uint4*>(dynamic), tables);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp == Rows::kNamingWarp) {
    rows.NameItems();
  } else if (warp == Rows::kFoldingWarp) {
    rows.FoldRows();
  } else {
    rows.Run();
  }
  GridTable<C>::End(params);
  Complete(params.completion);
#endif
}

template <typename In, bool kSkew, bool kLog>
const void* PartsMatrix() {
  if constexpr (sizeof(In) == 2) {
    return reinterpret_cast<const void*>(&WideMatrixKernel<In, kSkew, kLog, kPartChunks>);
  } else {
    return nullptr;
  }
}

template <typename In>
const WideKernels& WideKernelsOf() {
  static const WideKernels kernels{{reinterpret_cast<const void*>(&RingMatrixKernel<In, false>),
                                    reinterpret_cast<const void*>(&RingMatrixKernel<In, true>)},
                                   {{PartsMatrix<In, false, false>(), PartsMatrix<In, false, true>()},
                                    {PartsMatrix<In, true, false>(), PartsMatrix<In, true, true>()}}};
  return kernels;
}

}  // namespace softmax::kernels::cuda
