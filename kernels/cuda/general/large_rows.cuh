#pragma once

#include "kernels/cuda/blocks/team.cuh"
#include "kernels/cuda/core/part.cuh"

// Rows that are not small: the warps of a block or of a cluster share a row. Each warp reads its chunks once and keeps
// them, the last in registers and `stash` more in shared memory, where every lane stores its own vectors for itself.
// One exchange of statistics per row, or per several narrow rows that the block takes side by side; then the results
// are written from what was kept. A row with more chunks than the team can keep is read a second time from memory for
// the rest, last part first, so that the L2 still has some of it.
namespace softmax::kernels::cuda {

template <typename In>
class LargeRows {
 public:
  using C = ComputeOf<In>;

  // `table`: two times `entries` statistics in shared memory, then the stash.
  __device__ LargeRows(const LaunchParams& params, unsigned char* shared)
      : params_(params),
        table_(reinterpret_cast<Stats<C>*>(shared)),
        stash_(reinterpret_cast<uint4*>(shared + 2 * params.table_entries * sizeof(Stats<C>))),
        block_warp_(static_cast<int>(threadIdx.x) / 32),
        lanes_{static_cast<int>(threadIdx.x) % 32, 32} {}

  // Items [begin, end) of a segment: rows for a cluster, for a block alone as many rows as it takes side by side.
  __device__ void Run(const DeviceSegment& segment, std::int64_t begin, std::int64_t end, Team team,
                      const Scale<C>& scale) {
    team_ = team;
    const int chunks = static_cast<int>((segment.cols + kChunk - 1) / kChunk);
    const int step = team.IsCluster() ? 1 : SideRows(chunks);
    warps_ = step > 1 ? chunks : team.blocks * kBlockWarps;
    side_ = step > 1 ? block_warp_ / chunks : 0;
    warp_ = step > 1 ? block_warp_ % chunks : team.Rank() * kBlockWarps + block_warp_;
    for (std::int64_t item = begin; item < end; ++item) {
      // A warp without a row goes along to the barrier.
      const std::int64_t row = item * step + side_;
      const bool active = side_ < step && row < segment.outer;
      RunRow(segment, active ? row : item * step, active, chunks, scale);
    }
  }

 private:
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kSlots = kChunkSlots;

  __device__ __forceinline__ void RunRow(const DeviceSegment& segment, std::int64_t row, bool active, int chunks,
                                         const Scale<C>& scale) {
    input_ = static_cast<const In*>(segment.input) + row * segment.input_stride;
    valid_ = ValidLength(segment, row);
    wide_ = segment.input_wide != 0;
    log_ = segment.log != 0;
    const int groups = (chunks + kGroupChunks - 1) / kGroupChunks;
    grouped_ = chunks > kFlatChunks;
    mine_ = !active ? 0 : grouped_ ? GroupedCount(chunks, groups) : InterleavedCount(chunks);
    const Stats<C> stats = grouped_ ? GroupedStats(groups, scale) : InterleavedStats(chunks, scale);
    parity_ ^= 1;
    const Normalizer<C> normalize(scale, stats, segment.log != 0, valid_ == 0);
    for (int step = mine_ - 1; step >= 0; --step) {
      if (step != mine_ - 1) Recall(step);
      const std::int64_t column = ColumnAt(step);
      const bool wide = segment.output_wide != 0;
      ForAnyType(params_.output_type, [&](auto* type) {
        auto* output = static_cast<decltype(type)>(segment.output) + row * segment.output_stride;
        WritePart<In>(output + column, Within(segment.cols, column), Within(valid_, column), wide, lanes_, v_,
                      normalize);
      });
    }
  }

  // How many of the chunk's columns from `column` on lie below `end`.
  __device__ static int Within(std::int64_t end, std::int64_t column) {
    const std::int64_t n = end - column;
    return n <= 0 ? 0 : n < kChunk ? static_cast<int>(n) : kChunk;
  }

  // The warp's chunks: every warps_-th one, or every warps_-th group of them.
  __device__ int ChunkAt(int step) const {
    if (!grouped_) return warp_ + step * warps_;
    return (warp_ + step / kGroupChunks * warps_) * kGroupChunks + step % kGroupChunks;
  }
  __device__ std::int64_t ColumnAt(int step) const { return static_cast<std::int64_t>(ChunkAt(step)) * kChunk; }
  __device__ int InterleavedCount(int chunks) const {
    return warp_ < chunks ? (chunks - warp_ + warps_ - 1) / warps_ : 0;
  }
  __device__ int GroupedCount(int chunks, int groups) const {
    if (warp_ >= groups) return 0;
    const int count = (groups - warp_ + warps_ - 1) / warps_;
    const bool has_last = (groups - 1) % warps_ == warp_;
    return count * kGroupChunks - (has_last ? groups * kGroupChunks - chunks : 0);
  }

  __device__ __forceinline__ void Load(int step) {
    const std::int64_t column = ColumnAt(step);
    const int n = Within(valid_, column);
    const std::int64_t rest = valid_ - column - n;
    LoadPart(input_ + column, n, Around{column > 0, rest >= Element<In>::kVector}, wide_, lanes_, v_);
  }
  // The stash slot of a step, or -1: the last `stash_chunks` before the very last are kept.
  __device__ int StashSlot(int step) const {
    const int slot = step - (mine_ - 1 - static_cast<int>(params_.stash_chunks));
    return step < mine_ - 1 && slot >= 0 ? slot : -1;
  }
  __device__ __forceinline__ uint4* StashAt(int slot) const {
    return stash_ + slot * (kSlots * kBlockThreads) + threadIdx.x;
  }
  __device__ __forceinline__ Stats<C> Take(int step, const Scale<C>& scale) {
    Load(step);
    const int slot = StashSlot(step);
    if (slot >= 0) {
#pragma unroll
      for (int j = 0; j < kSlots; ++j) StashAt(slot)[j * kBlockThreads] = v_[j];
    }
    const std::int64_t column = ColumnAt(step);
    return FirstStats<In, kSlots, false>(log_, v_, Within(valid_, column), column == 0 ? valid_ : kManyColumns, lanes_,
                                         scale);
  }
  __device__ __forceinline__ void Recall(int step) {
    const int slot = StashSlot(step);
    if (slot < 0) {
      Load(step);
      return;
    }
#pragma unroll
    for (int j = 0; j < kSlots; ++j) v_[j] = StashAt(slot)[j * kBlockThreads];
  }

  // Few chunks: every member gets the statistics of each and folds them all.
  __device__ __forceinline__ Stats<C> InterleavedStats(int chunks, const Scale<C>& scale) {
    Stats<C>* const table = table_ + parity_ * params_.table_entries + side_ * chunks;
    for (int step = 0; step < mine_; ++step) {
      team_.Publish(table + ChunkAt(step), Take(step, scale));
    }
    // The table alternates between two halves, so one barrier a row is enough: nobody writes a half again before all
    // have passed the next row's barrier.
    team_.Sync();
    return FoldFlat(table, chunks, lanes_.lane, scale);
  }

  // Many chunks: each warp folds whole groups; the accumulators, each owned by one warp, are exchanged.
  __device__ __forceinline__ Stats<C> GroupedStats(int groups, const Scale<C>& scale) {
    Stats<C>* const table = table_ + parity_ * params_.table_entries;
    RowFold<C> fold;
    for (int step = 0; step < mine_; ++step) {
      fold.Add(ChunkAt(step), Take(step, scale), lanes_.lane, scale);
    }
    if (mine_ > 0 && mine_ % kGroupChunks != 0) {
      fold.EndGroup(ChunkAt(mine_ - 1) / kGroupChunks, lanes_.lane, scale);
    }
    for (int a = warp_; a < kAccumulators; a += warps_) {
      Stats<C> value = (a < 32 ? fold.low : fold.high).End();
      value.max = __shfl_sync(0xffffffffu, value.max, a % 32);
      value.sum = __shfl_sync(0xffffffffu, value.sum, a % 32);
      team_.Publish(table + a, value);
    }
    team_.Sync();
    return CombineLanes(CombineTwo(table[lanes_.lane], table[lanes_.lane + 32], scale), scale);
  }

  const LaunchParams& params_;
  Stats<C>* const table_;
  uint4* const stash_;
  const int block_warp_;
  const Lanes lanes_;
  int parity_ = 0;

  // The segment at hand: its rows are shared by warps_ warps, of which this is number warp_, with rows side by side.
  Team team_{1};
  int warps_ = 0;
  int warp_ = 0;
  int side_ = 0;

  // The row at hand.
  const In* input_ = nullptr;
  std::int64_t valid_ = 0;
  int mine_ = 0;  // chunks of this warp
  bool wide_ = false;
  bool log_ = false;
  bool grouped_ = false;
  uint4 v_[kSlots];
};

}  // namespace softmax::kernels::cuda
