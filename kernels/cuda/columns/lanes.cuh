#pragma once

#include "kernels/cuda/blocks/ahead.cuh"
#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/blocks/team.cuh"
#include "kernels/cuda/columns/memory.cuh"

// The kernel over another axis for all but few columns. Neighbouring threads have neighbouring units, and a few threads
// share a unit's columns: each holds those of some lanes of the tree in registers. What they find goes through shared
// memory, in the order of the tree. Of large rows it is a chunk after the other, which all but the last are read twice;
// the blocks of a cluster take chunks in turn.
namespace softmax::kernels::cuda {

template <typename In, int kUnit, bool kLarge>
class ColumnLanes {
 public:
  using C = ComputeOf<In>;
  // In shared memory: what the threads that share a unit tell each other.
  struct Shared {
    double sums[kUnit][kBlockThreads];
    C maxima[kUnit][kBlockThreads];
  };
  static_assert(sizeof(Shared) == kUnit * LanesSharedBytes(sizeof(In)), "planned for");

  __device__ __forceinline__ ColumnLanes(const ColumnParams& params, Shared& shared, const Scale<C>& scale)
      : params_(params),
        segment_(params.segment),
        scale_(scale),
        shared_(shared),
        table_(reinterpret_cast<Chain<C>*>(&shared + 1)),
        team_{params.cluster_blocks},
        rank_(team_.Rank()),
        side_(static_cast<int>(threadIdx.x) & ((1 << params.side_log) - 1)),
        share_(static_cast<int>(threadIdx.x) >> params.side_log) {
    const unsigned at = (blockIdx.x / static_cast<unsigned>(params.cluster_blocks) << params.side_log) + side_;
    const auto width = static_cast<unsigned>(params.width);
    const unsigned outer = at / width;
    const std::int64_t unit = at - outer * width;
    const std::int64_t inner = unit * kUnit;
    const bool present = outer < segment_.outer && unit < params.units;
    valid_ = present ? ValidLength(segment_, outer * segment_.inner + inner) : 0;
    cols_ = present ? segment_.cols : 0;
    input_ = static_cast<const In*>(segment_.input) + outer * segment_.input_stride + inner;
    output_at_ = outer * segment_.output_stride + inner;
  }

  __device__ __forceinline__ void Run() {
    Statistics row;
    if constexpr (!kLarge) {
      Load(0);
      Reduce(0, row);
      Write(0, row);
    } else {
      ClearTable();
      int k = 0;
#pragma unroll 1
      for (; ChunkAt(k) < params_.chunks; ++k) {
        Load(FirstColumn(k));
        Reduce(FirstColumn(k), row);
        Take(ChunkAt(k), row);
      }
      FoldTable(row);
      const int last = k - 1;
#pragma unroll 1
      for (k = last; k >= 0; --k) {
        if (k != last) Load(FirstColumn(k));
        Write(FirstColumn(k), row);
      }
    }
  }

 private:
  using U = Unit<In, kUnit>;
  using Raw = typename U::Raw;
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kVectors = HeldVectors(sizeof(In));

  // Of the unit's rows.
  struct Statistics {
    C max[kUnit];
    C sum[kUnit];
    C low[kUnit];
  };

  __device__ __forceinline__ bool IsLog() const { return segment_.log != 0; }
  // The blocks of a cluster take chunks in turn or, where these are folded in groups, groups.
  __device__ __forceinline__ bool IsGrouped() const { return params_.chunks > kFlatChunks; }
  __device__ __forceinline__ int ChunkAt(int k) const {
    if (!IsGrouped()) return rank_ + k * team_.blocks;
    return (rank_ + k / kGroupChunks * team_.blocks) * kGroupChunks + k % kGroupChunks;
  }
  __device__ __forceinline__ std::int64_t FirstColumn(int k) const {
    return static_cast<std::int64_t>(ChunkAt(k)) * Element<In>::kChunk;
  }
  // Of `total` columns those from `first` on, in this part of the row.
  __device__ __forceinline__ static int PartOf(std::int64_t total, std::int64_t first) {
    constexpr int kMost = kLarge ? Element<In>::kChunk : SmallColumns(sizeof(In));
    const std::int64_t left = total - first;
    return left <= 0 ? 0 : left < kMost ? static_cast<int>(left) : kMost;
  }
  // Vectors of columns that the thread has of so many columns: every shares-th.
  __device__ __forceinline__ int VectorsOf(int columns) const {
    return max(0, (columns + kVector - 1) / kVector - share_ + params_.shares - 1) / params_.shares;
  }
  __device__ __forceinline__ int Place(int share) const { return (share << params_.side_log) + side_; }

  // Calls f(unit, counts, p) for the thread's columns of the part from `first` on. `of`: column 0 of elements of
  // `bytes`.
  template <typename F>
  __device__ __forceinline__ void ForColumns(const void* of, int bytes, std::int64_t first, F f) const {
    std::int64_t pitch = segment_.inner * bytes;
    asm volatile("" : "+l"(pitch));  // its multiples are not worth registers
    int column = share_ * kVector;
    auto p = reinterpret_cast<std::uintptr_t>(of) + (first + column) * pitch;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (k >= count_) break;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        f(k * kVector + e, column + e < limit_, p);
        p += pitch;
      }
      p += (params_.shares - 1) * kVector * pitch;
      column += params_.shares * kVector;
    }
  }
  // Reads the part. What does not count is -inf.
  __device__ __forceinline__ void Load(std::int64_t first) {
    limit_ = PartOf(valid_, first);
    count_ = VectorsOf(limit_);
    const uint4 nothing = NothingVector<In>();
    ForColumns(input_, sizeof(In), first, [&](int unit, bool counts, std::uintptr_t p) {
      memcpy(&units_[unit], &nothing, sizeof(Raw));
      if (counts) units_[unit] = U::Load(reinterpret_cast<const unsigned char*>(p));
    });
  }

  // The statistics of the part from `first` on, as loaded: of large rows those threads have them that take them.
  __device__ __forceinline__ void Reduce(std::int64_t first, Statistics& row) {
    const int thread = static_cast<int>(threadIdx.x);
    UnitMaximum<In, kUnit> maximum;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (k >= count_) break;
#pragma unroll
      for (int e = 0; e < kVector; ++e) maximum.Add(units_[k * kVector + e]);
    }
    maximum.Get(row.max);
#pragma unroll
    for (int c = 0; c < kUnit; ++c) shared_.maxima[c][thread] = row.max[c];
    __syncthreads();
#pragma unroll 1
    for (int share = 0; share < params_.shares; ++share) {
#pragma unroll
      for (int c = 0; c < kUnit; ++c) row.max[c] = Larger(row.max[c], shared_.maxima[c][Place(share)]);
    }
    const bool is_precise = first == 0 && IsLog() && cols_ > 0 && valid_ <= kPreciseColumns;
    constexpr int kMostLanes = sizeof(In) == 4 ? 4 : 2;
#pragma unroll
    for (int c = 0; c < kUnit; ++c) {
      const ExpBase<C> base(row.max[c], scale_);
      const double sum = !IsFast(scale_)      ? RareSum(first, c, row.max[c])
                         : params_.lanes == 2 ? LanesSum<2>(c, base)
                                              : LanesSum<kMostLanes>(c, base);
      shared_.sums[c][thread] = sum;
      if (!is_precise) continue;
      const RowStats<C> precise = PreciseStatsOf<In>(params_, input_ + c, static_cast<int>(valid_), row.max[c]);
      row.sum[c] = precise.sum;
      row.low[c] = precise.low;
    }
    __syncthreads();
    if (is_precise || (kLarge && share_ != 0)) return;
#pragma unroll
    for (int c = 0; c < kUnit; ++c) {
      const double sum = params_.shares > 4 ? SharesSum<4>(c) : SharesSum<2>(c);
      row.sum[c] = static_cast<C>(IsFast(scale_) ? sum * ExpBase<C>(row.max[c], scale_).correction : sum);
      row.low[c] = 0;
    }
  }
  __device__ __forceinline__ double RareSum(std::int64_t first, int c, C max) const {
    const In* const part = input_ + first * segment_.inner + c;
    return SumOfLanes<In>(params_, part, limit_, share_, params_.shares, params_.lanes * params_.shares, max);
  }
  // The sum of the thread's lanes, kLanes of them, for element c of the unit.
  template <int kLanes>
  __device__ __forceinline__ double LanesSum(int c, const ExpBase<C>& base) const {
    double sums[kLanes];
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      C places[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) places[e] = 0;
#pragma unroll
      for (int k = lane; k < kVectors; k += kLanes) {
        if (k >= count_) break;
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          C x[kUnit];
          U::Open(units_[k * kVector + e], x);
          places[e] += base.Exp(x[c], scale_);
        }
      }
      sums[lane] = PlacesSum(places);
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
#pragma unroll
      for (int lane = 0; lane < step; ++lane) sums[lane] += sums[lane + step];
    }
    return sums[0];
  }
  // That of all shares, 2^kBits at most. What is not there adds exact zeros.
  template <int kBits>
  __device__ __forceinline__ double SharesSum(int c) const {
    double waiting[kBits + 1];
#pragma unroll
    for (int k = 0; k < 1 << kBits; ++k) {
      int share = 0;
#pragma unroll
      for (int bit = 0; bit < kBits; ++bit) share |= (k >> bit & 1) << (kBits - 1 - bit);
      const double sum = share < params_.shares ? shared_.sums[c][Place(share)] : 0;
      AddInTurn<kBits>(k, sum, waiting, [](double& x, double y) { x += y; });
    }
    return waiting[kBits];
  }

  // Large rows. The table has each row's accumulators and, where chunks are folded in groups, a group's behind them.

  __device__ __forceinline__ Chain<C>& Entry(int row, int entry) const { return table_[row * params_.entries + entry]; }
  // Calls f(row) for all rows of the block, by a warp each.
  template <typename F>
  __device__ __forceinline__ void ForRows(F f) const {
#pragma unroll 1
    for (int row = static_cast<int>(threadIdx.x) / 32; row < kUnit << params_.side_log; row += blockDim.x / 32) f(row);
  }
  __device__ __forceinline__ void ClearTable() const {
    ForRows([&](int row) {
      for (int i = lane_; i < params_.entries; i += 32) Entry(row, i) = Chain<C>::From(NoStats<C>());
    });
  }
  __device__ __forceinline__ void Take(int chunk, const Statistics& row) const {
#pragma unroll
    for (int c = 0; c < kUnit && share_ == 0; ++c) {
      const Stats<C> stats{row.max[c], row.sum[c]};
      const int at = (c << params_.side_log) + side_;
      if (!IsGrouped() && chunk >= kGroupChunks) {
        Entry(at, chunk % kGroupChunks).Add(stats, scale_);
      } else {
        Entry(at, chunk % kGroupChunks + (IsGrouped() ? kAccumulators : 0)) = Chain<C>::From(stats);
      }
    }
    if (!IsGrouped() || (chunk % kGroupChunks != kGroupChunks - 1 && chunk != params_.chunks - 1)) return;
    __syncthreads();
    ForRows([&](int at) {
      Chain<C>& mine = Entry(at, kAccumulators + lane_);
      const Stats<C> all = CombineLanes(mine.End(), scale_);
      mine = Chain<C>::From(NoStats<C>());
      if (lane_ == 0) Entry(at, chunk / kGroupChunks % kAccumulators).Add(all, scale_);
    });
  }
  // The same entry of the block of the cluster that has it.
  __device__ __forceinline__ Stats<C> EntryOfAll(int row, int entry) const {
    if (entry >= min(params_.entries, kAccumulators)) return NoStats<C>();
    const Chain<C>* from = &Entry(row, entry);
#if __CUDA_ARCH__ >= 900
    if (team_.IsCluster()) from = static_cast<const Chain<C>*>(__cluster_map_shared_rank(from, entry % team_.blocks));
#endif
    return from->End();
  }
  // The statistics of whole rows.
  __device__ __forceinline__ void FoldTable(Statistics& row) const {
    auto* const all = reinterpret_cast<Stats<C>*>(&shared_);
    team_.Sync();
    ForRows([&](int at) {
      Stats<C> mine = EntryOfAll(at, lane_);
      if (IsGrouped()) mine = CombineTwo(mine, EntryOfAll(at, lane_ + 32), scale_);
      mine = CombineLanes(mine, scale_);
      if (lane_ == 0) all[at] = mine;
    });
    team_.Sync();  // nor may a block leave while others read what it has
#pragma unroll
    for (int c = 0; c < kUnit; ++c) {
      const Stats<C> stats = all[(c << params_.side_log) + side_];
      row.max[c] = stats.max;
      row.sum[c] = stats.sum;
      row.low[c] = 0;
    }
  }

  // Results: those of the usual forms and types from the registers, others from the memory.
  __device__ __forceinline__ void Write(std::int64_t first, const Statistics& row) const {
    bool is_usual = valid_ == cols_ && IsFast(scale_);
    ForAnyType(params_.output_type,
               [&](auto* type) { is_usual = is_usual && kIsUsualOutput<In, std::remove_pointer_t<decltype(type)>>; });
    C from[kUnit];
    C factor[kUnit];
    LogTerms<C> terms[kUnit];
#pragma unroll
    for (int c = 0; c < kUnit; ++c) {
      const Normalizer<C> normalize(scale_, RowStats<C>(row.max[c], row.sum[c], row.low[c]), IsLog(), valid_ == 0);
      factor[c] = normalize.factor;
      if constexpr (sizeof(In) == 2) {
        is_usual = is_usual && normalize.template HasPlainForm<In>();
      } else {
        is_usual = is_usual && (IsLog() ? factor[c] == factor[c] : normalize.base.IsPlain());
        terms[c] = LogTerms<C>(normalize.base.max_pre, factor[c], normalize.log_lo, params_.zero);
      }
      if constexpr (sizeof(C) == 4) {
        from[c] = IsLog() ? normalize.max : normalize.base.shift;
      } else {
        from[c] = normalize.base.max_pre;
      }
    }
    if (!is_usual) {
      const std::int64_t end = first + PartOf(cols_, first);
#pragma unroll
      for (int c = 0; c < kUnit; ++c) {
        WriteFromMemory<In>(params_, input_ + c, output_at_ + c, first + share_ * kVector, end, params_.shares, valid_,
                            RowStats<C>(row.max[c], row.sum[c], row.low[c]));
      }
      return;
    }
    if (!IsLog()) {
      Store(first, [&](int c, C x) {
        if constexpr (sizeof(C) == 4) return scale_.PlainExp(x, from[c]) * factor[c];
        return scale_.Exp(x, from[c]) * factor[c];
      });
    } else if constexpr (sizeof(In) == 2) {
      Store(first, [&](int c, C x) { return fma(x - from[c], scale_.plain, -factor[c]); });
    } else {
      const LogScale<C> log_scale(scale_);
      Store(first, [&](int c, C x) { return terms[c].NumberResult(x, log_scale); });
    }
  }
  template <typename F>
  __device__ __forceinline__ void Store(std::int64_t first, F result) const {
    ForUsualOutput<In>(params_.output_type, [&](auto* type) {
      using Out = std::remove_pointer_t<decltype(type)>;
      const Out* const output = static_cast<const Out*>(segment_.output) + output_at_;
      ForColumns(output, sizeof(Out), first, [&](int unit, bool counts, std::uintptr_t p) {
        if (!counts) return;
        C x[kUnit];
        U::Open(units_[unit], x);
#pragma unroll
        for (int c = 0; c < kUnit; ++c) x[c] = result(c, x[c]);
        StoreUnit(reinterpret_cast<Out*>(p), x);
      });
    });
  }

  const ColumnParams& params_;
  const DeviceSegment& segment_;
  const Scale<C>& scale_;
  Shared& shared_;
  Chain<C>* const table_;
  const Team team_;
  const int rank_;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  const int side_;          // the thread's unit in the block
  const int share_;         // and its share of the columns
  std::int64_t valid_;      // columns that count, and
  std::int64_t cols_;       // all; 0: the thread has no row
  const In* input_;         // of the unit
  std::int64_t output_at_;  // likewise, in elements
  int limit_;               // columns of the part that count
  int count_;               // vectors of the thread
  Raw units_[kVectors * kVector];
};

template <typename In, int kUnit, bool kLarge>
__global__ void __launch_bounds__(kBlockThreads, 2) ColumnLanesKernel(const __grid_constant__ ColumnParams params) {
  using C = ComputeOf<In>;
  using Lanes = ColumnLanes<In, kUnit, kLarge>;
  extern __shared__ __align__(16) unsigned char shared[];
  WaitForEarlierLaunches();
  AllowNextLaunch();
  const auto scale = ScaleOf<C>(params);
  Lanes(params, *reinterpret_cast<typename Lanes::Shared*>(shared), scale).Run();
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
