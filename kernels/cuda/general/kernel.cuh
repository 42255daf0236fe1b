#pragma once

#include "kernels/cuda/blocks/bulk.cuh"
#include "kernels/cuda/blocks/segment_walk.cuh"
#include "kernels/cuda/blocks/team.cuh"
#include "kernels/cuda/core/part.cuh"
#include "kernels/cuda/general/plan.h"

// Any segments of contiguous rows. Their parts are read once where shared memory holds them: every lane keeps its own
// vectors there for itself, kBlockThreads apart.
namespace softmax::kernels::cuda {

// The statistics of a part of a row, which is also kept. Functions of their own, as all kinds of rows share them.
template <typename In, int kSlots>
__device__ __noinline__ RowStats<ComputeOf<In>> TakePart(const In* p, int n, std::int64_t valid, Around around,
                                                         bool log, Lanes lanes, const Scale<ComputeOf<In>>& scale,
                                                         uint4* kept) {
  const bool wide = __all_sync(0xffffffffu, Misalignment(p) == 0);
  uint4 v[kSlots];
  LoadPart(p, n, around, wide, lanes, v);
#pragma unroll
  for (int j = 0; j < kSlots && kept != nullptr; ++j) kept[j * kBlockThreads] = v[j];
  return FirstStats<In, kSlots, true>(log, v, n, valid, lanes, scale);
}
// Writes the results of `n` columns that were kept, from column `at` of the output on.
template <typename In, int kSlots>
__device__ __noinline__ void WriteKept(void* output, std::int64_t at, DataType type, int n, int valid, Lanes lanes,
                                       const Normalizer<ComputeOf<In>>& normalize, const uint4* kept) {
  uint4 v[kSlots];
#pragma unroll
  for (int j = 0; j < kSlots; ++j) v[j] = kept[j * kBlockThreads];
  ForAnyType(type, [&](auto* t) {
    auto* const to = static_cast<decltype(t)>(output) + at;
    const bool wide = __all_sync(0xffffffffu, reinterpret_cast<std::uintptr_t>(to) % kVectorBytes == 0);
    WritePart<In>(to, n, valid, wide, lanes, v, normalize);
  });
}

template <typename In>
class GeneralRows {
 public:
  using C = ComputeOf<In>;

  __device__ GeneralRows(const GeneralParams& params, unsigned char* shared, const GeneralSegment& segment,
                         const Scale<C>& scale)
      : params_(params),
        segment_(segment),
        scale_(scale),
        team_{params.cluster_blocks},
        rank_(team_.Rank()),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        table_(reinterpret_cast<Stats<C>*>(shared)),
        rest_(shared + kGeneralTableBytes) {}

  // By the whole team.
  __device__ void Run(std::int64_t item) {
    if (segment_.cols > Element<In>::kSmall) {
      RunLargeRows(item);
    } else {
      RunSmallRows(item * team_.blocks + rank_);
    }
  }

 private:
  static constexpr int kChunk = Element<In>::kChunk;
  static constexpr int kSmall = SmallSlots(sizeof(In));

  __device__ bool IsLog() const { return segment_.operation == Operation::kLogSoftmax; }
  __device__ uint4* Kept(int chunk) const {
    return reinterpret_cast<uint4*>(rest_) + chunk * (kChunkSlots * kBlockThreads) + threadIdx.x;
  }
  // How many of the columns from `column` on, `most` at most, lie below `end`.
  __device__ static int Within(std::int64_t end, std::int64_t column, int most = kChunk) {
    const std::int64_t n = end - column;
    return n <= 0 ? 0 : n < most ? static_cast<int>(n) : most;
  }

  // A group of lanes takes a row.
  __device__ void RunSmallRows(std::int64_t item) {
    const int count = RowLanes(segment_.cols, sizeof(In));
    const Lanes lanes{lane_ & (count - 1), count};
    std::int64_t row = (item * kBlockThreads + threadIdx.x) / count;
    // Lanes without a row go along with an empty one: the shuffles need whole warps.
    const bool active = row < segment_.outer;
    if (!active) row = 0;
    const int cols = active ? static_cast<int>(segment_.cols) : 0;
    const int valid = active ? static_cast<int>(ValidLength(segment_, row)) : 0;
    const RowStats<C> stats = TakePart<In, kSmall>(static_cast<const In*>(segment_.input) + row * segment_.input_stride,
                                                   valid, valid, Around{false, false}, IsLog(), lanes, scale_, Kept(0));
    const Normalizer<C> normalize(scale_, stats, IsLog(), valid == 0);
    WriteKept<In, kSmall>(segment_.output, row * segment_.output_stride, params_.output_type, cols, valid, lanes,
                          normalize, Kept(0));
  }

  // Warps of the team take chunks of a row, and of the rows beside it. Rows in groups: whole groups of chunks.
  __device__ void RunLargeRows(std::int64_t item) {
    const auto chunks = static_cast<int>((segment_.cols + kChunk - 1) / kChunk);
    const int members = team_.blocks * kBlockWarps;
    const int warps = RowWarps(chunks, members);
    const int side = (rank_ * kBlockWarps + warp_) / warps;
    const int first = (rank_ * kBlockWarps + warp_) % warps;
    const std::int64_t row = item * (members / warps) + side;
    const bool active = row < segment_.outer;
    const std::int64_t valid = active ? ValidLength(segment_, row) : 0;
    const bool grouped = chunks > kFlatChunks;
    const auto chunk_at = [&](int step) {
      if (!grouped) return first + step * warps;
      return (first + step / kGroupChunks * warps) * kGroupChunks + step % kGroupChunks;
    };
    const Lanes lanes{lane_, 32};
    const auto take = [&](int step, uint4* kept) {
      const In* const input = static_cast<const In*>(segment_.input) + row * segment_.input_stride;
      const std::int64_t column = std::int64_t{chunk_at(step)} * kChunk;
      const int n = Within(valid, column);
      const Around around{column > 0, valid - column - n >= Element<In>::kVector};
      return TakePart<In, kChunkSlots>(input + column, n, column == 0 ? valid : kManyColumns, around, IsLog(), lanes,
                                       scale_, kept);
    };
    const int end = active ? chunks : 0;
    Stats<C>* const table = table_ + parity_ * kFlatChunks + side * chunks * (grouped ? 0 : 1);
    parity_ ^= 1;
    RowFold<C> fold;
    for (int step = 0; chunk_at(step) < end; ++step) {
      const Stats<C> stats = take(step, step < params_.kept_chunks ? Kept(step) : nullptr);
      if (grouped) {
        fold.Add(chunk_at(step), stats, lane_, scale_);
      } else {
        team_.Publish(table + chunk_at(step), stats);
      }
    }
    if (grouped) PublishGroups(fold, chunks, first, warps, table);
    // Nobody writes this table again before all have passed the next row's barrier.
    team_.Sync();
    const Stats<C> stats = grouped ? CombineLanes(CombineTwo(table[lane_], table[lane_ + 32], scale_), scale_)
                                   : FoldFlat(table, chunks, lane_, scale_);
    const Normalizer<C> normalize(scale_, stats, IsLog(), valid == 0);
    for (int step = 0; chunk_at(step) < end; ++step) {
      // What was not kept is read again, to the place of the first, which is written by then.
      const bool kept = step < params_.kept_chunks;
      if (!kept) take(step, Kept(0));
      const std::int64_t column = std::int64_t{chunk_at(step)} * kChunk;
      WriteKept<In, kChunkSlots>(segment_.output, row * segment_.output_stride + column, params_.output_type,
                                 Within(segment_.cols, column), Within(valid, column), lanes, normalize,
                                 Kept(kept ? step : 0));
    }
  }
  // The accumulators of the groups, each of which one warp has.
  __device__ void PublishGroups(RowFold<C>& fold, int chunks, int first, int warps, Stats<C>* table) const {
    const int last = (chunks - 1) / kGroupChunks;
    if (chunks % kGroupChunks != 0 && last % warps == first) fold.EndGroup(last, lane_, scale_);
    for (int a = first; a < kAccumulators; a += warps) {
      Stats<C> value = (a < 32 ? fold.low : fold.high).End();
      value.max = __shfl_sync(0xffffffffu, value.max, a % 32);
      value.sum = __shfl_sync(0xffffffffu, value.sum, a % 32);
      team_.Publish(table + a, value);
    }
  }

  const GeneralParams& params_;
  const GeneralSegment& segment_;
  const Scale<C>& scale_;
  const Team team_;
  const int rank_;
  const int warp_;
  const int lane_;
  Stats<C>* const table_;
  unsigned char* const rest_;  // of the shared memory
  int parity_ = 0;
};

template <typename In>
__global__ void __launch_bounds__(kBlockThreads, sizeof(In) == 8 ? 1 : 2)
    GeneralKernel(const __grid_constant__ GeneralParams params) {
  using S = Scale<ComputeOf<In>>;
  extern __shared__ __align__(16) unsigned char dynamic[];
  __shared__ __align__(16) unsigned char bytes[sizeof(GeneralSegment)];
  __shared__ __align__(alignof(S)) unsigned char scale[sizeof(S)];
  GeneralSegment& segment = *reinterpret_cast<GeneralSegment*>(bytes);
  const Team team{params.cluster_blocks};
  team.Sync();  // a block's shared memory may be written by others only once it has started
  GeneralRows<In> rows(params, dynamic, segment, *reinterpret_cast<const S*>(scale));
  SegmentWalk walk(params.table != nullptr ? params.table : params.segments, params.segment_count,
                   &GeneralSegment::first_item, segment);
  // Neighbouring items, so that a table in the host's memory is looked at rarely.
  const std::int64_t first = blockIdx.x / params.cluster_blocks * params.items_per_team;
  const std::int64_t end = min(first + params.items_per_team, params.items);
  for (std::int64_t item = first; item < end; ++item) {
    if (walk.MovesTo(item)) {
      walk.Load();
      if (threadIdx.x == 0) *reinterpret_cast<S*>(scale) = S::Of(segment.scale);
      __syncthreads();
    }
    rows.Run(item - segment.first_item);
  }
  team.Sync();  // no block may leave while another still writes to its shared memory
  Complete(params.completion);
}

}  // namespace softmax::kernels::cuda
