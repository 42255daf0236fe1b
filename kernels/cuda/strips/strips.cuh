#pragma once

#include "kernels/cuda/columns/copy.cuh"
#include "kernels/cuda/columns/exchange.cuh"
#include "kernels/cuda/columns/plan.h"
#include "kernels/cuda/core/part.cuh"

// Strips of rows over another axis of a large inner size whose columns miss the sectors of memory. What limits kernels
// there is that sectors are written in part, by two blocks. Here strips overlap by what a sector may have of two, and
// each block writes whole sectors only, but for the first and last of a column. A block stays on its multiprocessor and
// takes strip after strip.
namespace softmax::kernels::cuda {

// What the kernels of strips/stream.cuh and strips/pairs.cuh have in common: a strip's columns on their way to shared
// memory, a warp's lanes of the tree, and statistics on theirs between the blocks of a cluster. `kWidth`: rows that a
// block reads.
template <typename In, int kWidth>
class ColumnStrips {
 protected:
  static constexpr int kVector = Element<In>::kVector;
  static constexpr int kSize = static_cast<int>(sizeof(In));
  static constexpr int kSlots = kStreamColumns / (32 * kVector);
  static constexpr int kTurns = 32 / kStreamWarps;  // lanes of a warp
  static constexpr int kCopies = 4;                 // parts of a strip, as they are copied
  static constexpr int kCopySlots = kSlots / kCopies;
  static constexpr int kCopyColumns = kStreamColumns / kCopies;
  static_assert(kWidth * kSize + kVectorBytes == kStreamPitch, "planned for");

  // `blocks` share rows.
  __device__ __forceinline__ ColumnStrips(const ColumnParams& params, unsigned char* tile, int blocks)
      : params_(params),
        tile_(tile),
        blocks_(blocks),
        rank_(blocks > 1 ? static_cast<int>(blockIdx.x) % blocks : 0),
        columns_(min(kStreamColumns, static_cast<int>(params.segment.cols) - rank_ * kStreamColumns)) {}

  static __device__ __forceinline__ int Warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }
  // The same, as far as the compiler knows some other value: what is made of it takes no registers elsewhere.
  template <typename T>
  static __device__ __forceinline__ T Again(T value) {
    if constexpr (sizeof(T) == 4) {
      asm volatile("" : "+r"(value));
    } else {
      asm volatile("" : "+l"(value));
    }
    return value;
  }

  // Clusters of the launch.
  __device__ __forceinline__ int ClustersAgain() const {
#if __CUDA_ARCH__ >= 900
    int clusters = 0;
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(clusters));
    return clusters;
#else
    return static_cast<int>(gridDim.x) / blocks_;
#endif
  }

  struct Strip {
    std::int64_t outer;
    int first;  // inner element
    int width;
    bool is_last;
  };
  __device__ __forceinline__ Strip StripOf(int index) const {
    const int outer = index / params_.strips;
    const int first = (index - outer * params_.strips) * params_.strip;
    const auto inner = static_cast<int>(params_.segment.inner);
    return {outer, first, min(sizeof(In) == 4 ? kWidth : params_.read_width, inner - first),
            first + params_.strip >= inner};
  }
  // Of its first element, as far as it says where columns lie: they are some elements' bytes apart.
  __device__ __forceinline__ unsigned AddressOf(const Strip& strip) const {
    const DeviceSegment& segment = params_.segment;
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(static_cast<const In*>(segment.input) +
                                                                  strip.outer * segment.input_stride + strip.first));
  }
  // From the tensor's first element of an outer block to the strip's in the warp's first column.
  __device__ __forceinline__ std::int64_t Past(const Strip& strip) const {
    return static_cast<std::int64_t>(rank_ * kStreamColumns + Warp() * kVector) * params_.segment.inner + strip.first;
  }
  // From the warp's first column.
  static __device__ __forceinline__ constexpr int ColumnOf(int slot, int turn, int place) {
    return (slot * 32 + turn * kStreamWarps) * kVector + place;
  }

  // Starts the copies of a part of the strip's columns, as the aligned vectors that they lie in.
  __device__ __forceinline__ void Copy(int index, int part, bool any) const {
    constexpr int kVectors = kStreamPitch / kVectorBytes;                 // that a column may lie in
    constexpr int kSide = kStreamThreads / kVectors / kVector * kVector;  // columns side by side, which lie alike
    constexpr std::uintptr_t kMask = kVectorBytes - 1;
    const auto thread = static_cast<int>(threadIdx.x);
    const int line = thread / kVectors;
    const int vector = thread - line * kVectors;
    const int first = part * kCopyColumns + line;
    const int end = min(columns_, (part + 1) * kCopyColumns);
    if (any && line < kSide && first < end) {
      const DeviceSegment& segment = params_.segment;
      const Strip strip = StripOf(index);
      const auto* const outer = static_cast<const In*>(segment.input) + strip.outer * segment.input_stride;
      const auto least = reinterpret_cast<std::uintptr_t>(outer);
      const auto most = reinterpret_cast<std::uintptr_t>(outer + segment.cols * segment.inner);
      const auto element = reinterpret_cast<std::uintptr_t>(
          outer + static_cast<std::int64_t>(rank_ * kStreamColumns + first) * segment.inner + strip.first);
      if (vector * kVectorBytes < static_cast<int>(element & kMask) + strip.width * kSize) {
        std::uintptr_t memory = (element & ~kMask) + static_cast<unsigned>(vector * kVectorBytes);
        unsigned char* shared = tile_ + first * kStreamPitch + vector * kVectorBytes;
        const auto step = static_cast<std::uintptr_t>(kSide * segment.inner * kSize);
        const std::uintptr_t last = memory + step * static_cast<unsigned>((end - 1 - first) / kSide);
        if (memory >= least && last + kVectorBytes <= most) {
          ForCopies(first, end, kSide, [&] {
            CopyAsync(shared, memory);
            memory += step;
            shared += kSide * kStreamPitch;
          });
        } else {
#pragma unroll 1
          for (int k = first; k < end; k += kSide) {
            if (memory >= least && memory + kVectorBytes <= most) {
              CopyAsync(shared, memory);
            } else {
              ReadElements<In>(memory, shared, least, most);
            }
            memory += step;
            shared += kSide * kStreamPitch;
          }
        }
      }
    }
    CommitCopies();
  }

  // Of the warps that are kStep, 2 kStep, ... apart, in the order of the tree.
  template <int kStep>
  static __device__ __forceinline__ double TreeSum(const double* p) {
    if constexpr (kStep == kStreamWarps) {
      return *p;
    } else {
      return TreeSum<2 * kStep>(p) + TreeSum<2 * kStep>(p + kStep * kWidth);
    }
  }

  // Between the blocks of a cluster. What comes in turns goes to two tables, so that nobody overwrites what others
  // still read: a block is ahead of others by one turn at most.
  __device__ __forceinline__ int TurnBytes() const {
    return params_.chunks * kWidth * static_cast<int>(sizeof(Stats<float>));
  }
  __device__ __forceinline__ void Meet(std::uint64_t* barriers) const {
    ClusterExchange(&barriers[0]).Expect(TurnBytes());
    ClusterExchange(&barriers[1]).Expect(TurnBytes());
    ClusterExchange::Arrive();
    ClusterExchange::Begin();
  }
  // Leaves the statistics of the rows in `done`. `send` sends those of the block's chunks to a table: a row's chunks
  // lie side by side there.
  template <typename F>
  __device__ __forceinline__ void Exchange(unsigned turn, std::uint64_t* barriers, Stats<float>* done,
                                           const Scale<float>& scale, F send) const {
    const ClusterExchange exchange(&barriers[turn % 2]);
    const int chunks = params_.chunks;
    auto* const table = reinterpret_cast<Stats<float>*>(tile_ + kStreamColumns * kStreamPitch) +
                        static_cast<int>(turn % 2) * chunks * kWidth;
    send(exchange, table);
    exchange.WaitForTurn(turn / 2);
    for (int row = Warp(); row < kWidth; row += kStreamWarps) {
      const Stats<float> stats = FoldFlat(table + row * chunks, chunks, Lane(), scale);
      if (Lane() == 0) done[row] = stats;
    }
    if (threadIdx.x == 0) exchange.ExpectMore(TurnBytes());
    __syncthreads();
  }

  // Elements from `p` on that lie in a sector that begins before it: the strip before this one writes them.
  static __device__ __forceinline__ int Before(std::uintptr_t p) {
    return static_cast<int>((0 - p) % kSectorBytes) / kSize;
  }
  // The rows that the strip writes in the column whose first element of the strip is at `to`.
  struct Range {
    int begin;
    int end;
  };
  __device__ __forceinline__ Range RangeOf(const Strip& strip, const In* to) const {
    const auto p = reinterpret_cast<std::uintptr_t>(to);
    const int begin = strip.first == 0 ? 0 : Before(p);
    const int end =
        strip.is_last ? strip.width : params_.strip + Before(p + static_cast<unsigned>(params_.strip * kSize));
    return {begin, min(end, strip.width)};
  }

  const ColumnParams& params_;
  unsigned char* const tile_;
  const int blocks_;   // of the cluster
  const int rank_;     // in it
  const int columns_;  // of this block
};

}  // namespace softmax::kernels::cuda
